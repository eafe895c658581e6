package resp

// The first and the largest size of an input's buffer.
const (
	firstRoom = 4 << 10
	mostRoom  = maxCommand
)

// input buffers the data that was received and not yet parsed.
type input struct {
	buffer   []byte
	from, to int
}

func (in *input) unread() []byte { return in.buffer[in.from:in.to] }

func (in *input) took(n int) { in.from += n }

func (in *input) filled(n int) { in.to += n }

// room returns free space for the next read. It is never empty, because the parser
// refuses a command before it fills mostRoom. The buffer doubles, up to mostRoom, when
// the client has filled it.
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
