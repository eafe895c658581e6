package redisstore

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
	"github.com/stintdev/stint/internal/shorthash"
)

// compiled holds what the store needs of a limit, computed once.
type compiled struct {
	limit stint.Limit
	kind  kind
	mark  string // in a key: callerMark, or nothing
	hash  string // the limit's hash in a key
	shape string // shapeBytes: the scripts must not use one key for two shapes
	args  string // its numbers, as the scripts read them
	class callerbudget.Class
}

// kind is how a script counts; the scripts know the numbers.
type kind uint8

const (
	bucketKind   kind = 1
	leakyKind    kind = 2
	windowKind   kind = 3
	calendarKind kind = 4
	counterKind  kind = 5
	logKind      kind = 6
)

// kinds is the factor of the class of a caller's limit, in the byte that encodes both class and
// kind.
const kinds = 16

func compile(l stint.Limit, keep int64) *compiled {
	rule := l.Rule()
	if l.Namespace() != "" {
		rule = l.Namespace() + partSeparator + rule
	}
	n := l.Numbers()
	k, numbers := scriptNumbers(&n)
	class := callerbudget.ClassOf(l, keep)
	args := []byte{byte(k) + kinds*byte(class)}
	for _, x := range append([]int64{n.Max}, numbers[:]...) {
		args = appendInt7(args, x)
	}
	c := &compiled{
		limit: l, kind: k, args: string(args), class: class,
		shape: string([]byte{byte(k), byte(n.Buckets)}),
	}
	if l.FromCaller() {
		c.mark, c.hash = callerMark, shorthash.Long(rule, l.Name(), l.Shape())
	} else {
		c.hash = shorthash.Of(rule, l.Name(), l.Shape())
	}
	return c
}

// shapeBytes is the length of compiled.shape.
const shapeBytes = 2

// scriptNumbers returns what a script reads of a limit: its kind and, beside
// the greatest cost, four numbers.
func scriptNumbers(n *stint.Numbers) (kind, [4]int64) {
	switch n.Algorithm {
	case stint.TokenBucket, stint.GCRA:
		return bucketKind, [4]int64{n.P, n.Q, n.Fill}
	case stint.LeakyBucket:
		return leakyKind, [4]int64{n.P, n.Q, n.Fill, n.MaxWait} // MaxWait comes with each claim; here it tells limits apart
	case stint.SlidingWindowCounter:
		return counterKind, [4]int64{n.Width, int64(n.Buckets)}
	case stint.SlidingWindowLog:
		return logKind, [4]int64{n.Window}
	case stint.Quota:
		if n.Length == 0 {
			return calendarKind, [4]int64{n.Offset, n.Day, n.TimeOfDay}
		}
		// An anchor may be further back than a double counts microseconds; the
		// first period after the epoch begins the same ones.
		origin := ((n.Origin % n.Length) + n.Length) % n.Length
		return windowKind, [4]int64{n.Length, origin}
	default:
		return windowKind, [4]int64{n.Window}
	}
}

// appendInt7 appends the low 7 bytes of a number, big-endian.
func appendInt7(to []byte, x int64) []byte {
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], uint64(x))
	return append(to, word[1:]...)
}

// limitCache caches compiled limits. Limits that are equal to a script share one
// compiled value, so that their claims can share a line. The zero value is ready for
// use with keys that do not outlive their states.
type limitCache struct {
	keep     int64    // ms that a key lives longer than its state
	byLimit  sync.Map // stint.Limit → *compiled
	byText   sync.Map // mark, hash and args → *compiled
	entries  atomic.Int64
	clearing sync.Mutex
}

// maxCached bounds the cache: a caller may compile a limit for every check.
const maxCached = 4096

func (k *limitCache) of(l stint.Limit) *compiled {
	if c, ok := k.byLimit.Load(l); ok {
		return c.(*compiled) //nolint:forcetypeassert // byText holds nothing else
	}
	return k.add(l)
}

func (k *limitCache) add(l stint.Limit) *compiled {
	if k.entries.Add(1) > maxCached {
		k.clear()
	}
	c := compile(l, k.keep)
	known, _ := k.byText.LoadOrStore(c.mark+c.hash+c.args, c)
	k.byLimit.Store(l, known)
	return known.(*compiled) //nolint:forcetypeassert // byText holds nothing else
}

// clear empties the cache. Compiled limits in use stay valid.
func (k *limitCache) clear() {
	k.clearing.Lock()
	defer k.clearing.Unlock()
	if k.entries.Load() > maxCached {
		k.byLimit.Clear()
		k.byText.Clear()
		k.entries.Store(0)
	}
}
