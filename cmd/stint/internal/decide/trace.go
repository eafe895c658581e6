package decide

// The parts of a W3C traceparent: version, trace id, parent id and flags, such as
// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.
const (
	traceParent = 55 // its length
	traceFrom   = 3
	traceTo     = traceFrom + 32
	sampledFlag = 1
)

// TraceID returns the trace id of a traceparent whose trace is sampled, and "" for any other
// text. Metrics show the id of a recent request, by which an operator finds its trace: one
// that is not sampled has been stored nowhere. Callers choose the id, so it must have the
// form of one.
func TraceID(parent string) string {
	if len(parent) != traceParent || parent[:traceFrom] != "00-" || parent[traceTo] != '-' || parent[traceParent-3] != '-' {
		return ""
	}
	id, set := parent[traceFrom:traceTo], false
	for i := range len(id) {
		if hexDigit(id[i]) < 0 {
			return ""
		}
		set = set || id[i] != '0'
	}
	if flags := hexDigit(parent[traceParent-1]); !set || flags < 0 || flags&sampledFlag == 0 {
		return ""
	}
	return id
}

// hexDigit returns the value of a digit, and a negative number for another character. The
// letters of a traceparent are lower case.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
