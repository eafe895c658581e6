package resp

// The room of an input: what a connection begins with, and what it may get.
const (
	firstRoom = 4 << 10
	mostRoom  = maxCommand
)

// input is what has been received and not yet been taken.
type input struct {
	buffer   []byte
	from, to int
}

func (in *input) unread() []byte { return in.buffer[in.from:in.to] }

func (in *input) took(n int) { in.from += n }

func (in *input) filled(n int) { in.to += n }

// room returns where to receive more, never empty: a command that fills
// mostRoom has been refused. A client that filled all the room gets more.
func (in *input) room() []byte {
	filled := in.to == len(in.buffer)
	if size := len(in.buffer); filled && size < mostRoom {
		next := make([]byte, max(firstRoom, min(2*size, mostRoom)))
		in.to, in.from = copy(next, in.unread()), 0
		in.buffer = next
		return in.buffer[in.to:]
	}
	if in.from > 0 {
		in.to, in.from = copy(in.buffer, in.unread()), 0
	}
	return in.buffer[in.to:]
}
