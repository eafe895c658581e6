package limitsearch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// Busy is a caller with many requests.
type Busy struct {
	Caller   string  `json:"caller"` // a credential is shortened, with a hash
	Requests int64   `json:"requests"`
	Share    float64 `json:"share"` // of all requests
	// The units that it used at most within any second, minute and hour.
	PeakSecond int64 `json:"peak_1s"`
	PeakMinute int64 `json:"peak_1m"`
	PeakHour   int64 `json:"peak_1h"`
}

// busiest returns the callers with the most requests. Of equal ones the first in the log comes
// first.
func (c *callers) busiest(o *Options) (list []Busy) {
	if o.Busiest <= 0 {
		return nil
	}
	type busy struct {
		requests int64
		caller   int
	}
	all := make([]busy, len(c.list))
	for i := range c.list {
		all[i] = busy{c.list[i].count(), i}
	}
	slices.SortFunc(all, func(a, b busy) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(a.caller, b.caller))
	})
	peak := func(length time.Duration, of *caller) int64 { return slidingLog{length.Microseconds()}.peak(of) }
	for _, one := range all[:min(o.Busiest, len(all))] {
		of := &c.list[one.caller]
		list = append(list, Busy{
			Caller: o.Replay.ShowKey(c.keys[one.caller], c.hashed[one.caller]), Requests: one.requests, Share: float64(one.requests) / float64(c.events),
			PeakSecond: peak(time.Second, of), PeakMinute: peak(time.Minute, of), PeakHour: peak(time.Hour, of),
		})
	}
	return list
}

// count returns the number of requests.
func (c *caller) count() (n int64) {
	for range c.each {
		n++
	}
	return n
}

func (r *Report) writeBusiest(w io.Writer) {
	if len(r.Busiest) == 0 {
		return
	}
	fmt.Fprint(w, "\nbusiest callers\trequests\tshare\tmost in 1s\t1m\t1h\n")
	for _, b := range r.Busiest {
		fmt.Fprintf(w, "%s\t%d\t%.2f %%\t%d\t%d\t%d\n", replay.Plain(b.Caller, 32), b.Requests, 100*b.Share, b.PeakSecond, b.PeakMinute, b.PeakHour)
	}
}
