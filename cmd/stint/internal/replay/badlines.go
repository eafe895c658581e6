package replay

// BadLine is a line that could not be read or whose event could not be decided.
type BadLine struct {
	Input  string `json:"input"`
	Line   int64  `json:"line"` // from 1
	Reason string `json:"reason"`
}

// shownBadLines is the number of bad lines in a summary.
const shownBadLines = 5

// badLines counts bad lines and keeps the first ones.
type badLines struct {
	count int64
	first []BadLine
}

func (b *badLines) add(line BadLine) {
	b.count++
	if len(b.first) < shownBadLines {
		b.first = append(b.first, line)
	}
}

func (b *badLines) addAll(more *badLines) {
	b.count += more.count
	room := min(shownBadLines-len(b.first), len(more.first))
	b.first = append(b.first, more.first[:room]...)
}
