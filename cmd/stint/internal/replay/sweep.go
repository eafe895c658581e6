package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/stintdev/stint"
)

// MostSwept is the greatest number of limits of a sweep.
const MostSwept = 32

// StateBytes returns about how much memory a key takes at most under a limit of a sweep. Most
// algorithms have a small state of fixed size. The others have words on the Go heap, which holds up
// to four times the words in use: states that grow leave garbage of every size behind.
func StateBytes(l stint.Limit) int {
	const state, word = 64, 4 * 8
	switch spec := l.Spec(); {
	case spec.Algorithm == stint.SlidingWindowLog: // a time and a number for each unit, and spare room
		return state + 2*word*int(spec.Limit+spec.Limit/8)
	case spec.Algorithm == stint.SlidingWindowCounter && spec.Buckets > 1:
		return state + word*(spec.Buckets+2)
	default:
		return state
	}
}

// Swept is one limit of a sweep.
type Swept struct {
	Value int64 // the number that differs between the limits
	Limit stint.Limit
}

// SweepReport is the result of a sweep.
type SweepReport struct {
	Reading

	Rule   string       `json:"rule,omitempty"` // the rule whose limit differs; empty for a sweep of one limit
	Values []SweptValue `json:"values"`
}

// SweptValue is what one limit of a sweep would have done.
type SweptValue struct {
	Value         int64   `json:"value"`
	Denied        int64   `json:"denied"`
	ShareDenied   float64 `json:"share_denied"`   // share of events, 0 to 1
	CallersDenied int64   `json:"callers_denied"` // keys that were denied at least once
	ShareCallers  float64 `json:"share_callers"`  // share of keys, 0 to 1
	// DeniedByRule counts the events that the rule denied, also beside others.
	DeniedByRule int64 `json:"denied_by_rule,omitempty"`
}

// judge decides every event by one limit of a sweep.
type judge struct {
	Swept

	store  stint.Store
	denied int64
	keys   *keySet // that were denied
}

// Sweep decides the events by several limits in one pass over the inputs, each
// with counters of its own. Of the options it uses what they say of the inputs,
// By, and Progress.
func Sweep(ctx context.Context, options Options, limits []Swept, inputs ...Input) (SweepReport, error) {
	if len(limits) == 0 || len(limits) > MostSwept {
		return SweepReport{}, fmt.Errorf("sweep: %d limits are out of range (use 1 to %d)", len(limits), MostSwept)
	}
	now := int64(0)
	clock := func() time.Time { return time.UnixMicro(now) }
	judges := newJudges(limits, clock)
	reading, err := ReadKeys(ctx, options, func(e KeyedEvent) error {
		now = e.Time
		for i := range judges {
			if err := judges[i].decide(ctx, &e); err != nil {
				return err
			}
		}
		return nil
	}, inputs...)
	report := SweepReport{Reading: reading}
	for i := range judges {
		report.Values = append(report.Values, judges[i].result(&reading))
	}
	return report, err
}

// newJudges returns a judge for each limit, with a store and a limit of its own.
func newJudges(limits []Swept, clock func() time.Time) []judge {
	judges := make([]judge, len(limits))
	for i := range limits {
		own := Swept{limits[i].Value, limitCopies{}.of(limits[i].Limit)}
		judges[i] = judge{Swept: own, store: memoryStore(clock), keys: newKeySet()}
	}
	return judges
}

func (j *judge) decide(ctx context.Context, e *KeyedEvent) error {
	d, err := j.store.Take(ctx, stint.Claim{Key: e.Key, Limit: j.Limit, Cost: e.Cost, At: e.At})
	if err != nil {
		return fmt.Errorf("no decision: %w", err)
	}
	if !d.Allowed {
		j.denied++
		j.keys.add(e.Key)
	}
	return nil
}

func (j *judge) result(of *Reading) SweptValue {
	v := SweptValue{Value: j.Value, Denied: j.denied, CallersDenied: int64(j.keys.count)}
	if of.Events > 0 {
		v.ShareDenied = float64(v.Denied) / float64(of.Events)
		v.ShareCallers = float64(v.CallersDenied) / float64(of.Keys)
	}
	return v
}

// WriteText writes the report as tables for people. name is the number that
// differs between the limits.
func (s *SweepReport) WriteText(out io.Writer, name string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	err := s.Reading.WriteText(w)
	fmt.Fprintf(w, "\n%s\tdenied\tshare\tcallers denied\tshare", name)
	if s.Rule != "" {
		fmt.Fprintf(w, "\tby %s", Plain(s.Rule, 28))
	}
	fmt.Fprintln(w)
	for _, v := range s.Values {
		fmt.Fprintf(w, "%d\t%d\t%.2f %%\t%d\t%.2f %%", v.Value, v.Denied, 100*v.ShareDenied, v.CallersDenied, 100*v.ShareCallers)
		if s.Rule != "" {
			fmt.Fprintf(w, "\t%d", v.DeniedByRule)
		}
		fmt.Fprintln(w)
	}
	return errors.Join(err, w.Flush())
}

// WriteText writes what was read as lines of a table.
func (r *Reading) WriteText(w io.Writer) error {
	writeCutShort(w, r.CutShort)
	_, err := fmt.Fprintf(w, "events\t%d\n", r.Events)
	if r.Events > 0 {
		fmt.Fprintf(w, "time\t%s to %s\n", TimeText(r.FirstUS), TimeText(r.LastUS))
	}
	fmt.Fprintf(w, "callers\t%d\n", r.Keys)
	for _, row := range [...]struct {
		name  string
		count int64
	}{{"late", r.Late}, {"unreadable", r.Unreadable}, {"outside", r.Outside}, {"missing", r.Missing}} {
		if row.count > 0 {
			fmt.Fprintf(w, "%s\t%d\n", row.name, row.count)
		}
	}
	r.DecisionLog.write(w, r.Keys, r.Events)
	return err
}
