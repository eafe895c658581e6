package decide

import "github.com/stintdev/stint"

// maxRequestID is the greatest length of a request id, in bytes.
const maxRequestID = 128

// CheckRequestID returns an error unless an id has 1 to 128 characters of visible ASCII.
func CheckRequestID(id string) error {
	if id == "" || len(id) > maxRequestID {
		return invalid("has %d characters (give 1 to %d, such as a UUID)", len(id), maxRequestID)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return invalid("has a character other than visible ASCII (give 1 to %d characters, such as a UUID)", maxRequestID)
		}
	}
	return nil
}

// Once lets the caller repeat the item that was added last; see [stint.Once]. Without a
// group, such as for a check that a list decides, there is nothing to charge twice.
func (b *Batch) Once(o *stint.Once) {
	if last := &b.items[len(b.items)-1]; last.parts.from < last.parts.to {
		b.groups[len(b.groups)-1].Once = o
	}
}

// ErrorOf returns why the store has not decided the enforced claims of item i, or nil.
func (b *Batch) ErrorOf(i int) error {
	if it := &b.items[i]; it.parts.from < it.parts.to {
		return b.takeError(it)
	}
	return nil
}
