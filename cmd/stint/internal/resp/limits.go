package resp

import (
	"errors"
	"fmt"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/internal/boundedcache"
)

// maxCached bounds how many compiled limits are cached.
const maxCached = 1024

// quota is the arguments of CL.THROTTLE: count requests in period seconds, and a burst
// of 1 + burst.
type quota struct{ burst, count, period int64 }

// compile returns the limit of a quota. Its namespace is of this surface alone, so it
// never shares state with the limits of rules and of /v1/take. Its name contains none
// of the numbers, so a key keeps what it has used when they change.
func (q quota) compile() (stint.Limit, error) {
	const maxPeriod = int64(stint.MaxWindow / time.Second)
	for _, n := range []struct {
		name               string
		value, least, most int64
	}{{"max_burst", q.burst, 0, stint.MaxLimit - 1}, {"count", q.count, 1, stint.MaxLimit}, {"period", q.period, 1, maxPeriod}} {
		if n.value < n.least || n.value > n.most {
			return stint.Limit{}, fmt.Errorf("%s: %d is out of range (use a whole number from %d to %d)", n.name, n.value, n.least, n.most)
		}
	}
	spec := stint.Spec{
		Namespace: "resp", Rule: "cl.throttle", Name: "gcra", Algorithm: stint.GCRA,
		Limit: q.count, Window: time.Duration(q.period) * time.Second, Capacity: q.burst + 1,
	}
	decide.MarkCaller(&spec, false)
	limit, err := spec.Compile()
	return limit, q.explain(err)
}

// explain translates a limit's error into the terms of the command.
func (q quota) explain(err error) error {
	wrong, ok := errors.AsType[*stint.LimitError](err)
	if !ok {
		return err
	}
	if wrong.Field == "capacity" {
		return fmt.Errorf("max_burst: %d is too great for %d in %d seconds (lower it, or raise the rate)", q.burst, q.count, q.period)
	}
	return fmt.Errorf("count: %d in %d seconds is out of range (use a rate from one in 400 days to %d a second)", q.count, q.period, stint.MaxRate)
}

// limits caches the compiled limits of commands. To compile a limit takes
// microseconds, and most callers send the same few. A caller with ever new limits pays
// only for compiling them.
type limits struct {
	*boundedcache.Cache[quota, stint.Limit]
}

func newLimits() limits { return limits{boundedcache.New[quota, stint.Limit](maxCached)} }

func (l limits) get(q quota) (stint.Limit, error) {
	if limit, ok := l.Get(q); ok {
		return limit, nil
	}
	limit, err := q.compile()
	if err == nil {
		l.Put(q, limit)
	}
	return limit, err
}
