package decide

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

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

// maxOnces bounds the groups with a Once in one call to the store, where each of them is a
// step of its own. A thousand in one call can last longer than a call may: the store would
// then seem to fail, and a breaker would count the call as slow.
const maxOnces = 64

// takeGroups is TakeGroups of the store. It calls the store several times if more groups
// may be repeated than one call should have.
func (d *Decider) takeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	n := oneCall(groups)
	if n == len(groups) { // nearly always
		return d.options.Store.TakeGroups(ctx, groups, out)
	}
	var failed storekit.Errors
	for from, part := 0, 0; from < len(groups); {
		own := groups[from : from+n]
		claims, parts := stint.Sizes(own)
		errs, whole := storekit.PartErrors(d.options.Store.TakeGroups(ctx, own, out[:claims]), parts)
		for i := range parts {
			err := whole
			if errs != nil {
				err = errs[i]
			}
			failed.Set(part+i, groups, err)
		}
		from, part, out = from+n, part+parts, out[claims:]
		n = oneCall(groups[from:])
	}
	return failed.Err()
}

// oneCall returns how many of the groups, from the first on, one call to the store should
// have.
func oneCall(groups []stint.Group) int {
	onces := 0
	for i := range groups {
		if groups[i].Once == nil { // nearly always
			continue
		}
		if onces == maxOnces {
			return i
		}
		onces++
	}
	return len(groups)
}
