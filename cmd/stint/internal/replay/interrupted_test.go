package replay

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// stoppedReader is a pipe to which nothing more is written. The interrupt comes after its lines were
// read.
type stoppedReader struct {
	io.Reader
	interrupt context.CancelFunc
}

func (r stoppedReader) Read(p []byte) (int, error) {
	if n, _ := r.Reader.Read(p); n > 0 {
		return n, nil
	}
	r.interrupt()
	select {}
}

// An interrupted replay in memory counts also the events that wait for their order, and those that
// wait for the next minutes of a decision log.
func TestAnInterruptedReplayCountsWhatItHasRead(t *testing.T) {
	recorded := `{"t_us":1772521924000000,"key":"a"}` + "\n"
	logged := `{"t_us":1772521924000000,"key":"a","id":"a","api_key":"a","path":"/x","cost":1,"rule":"r","allowed":true,"sample_rate":1,"sampled":true}` + "\n"
	rules := Options{Rules: ruleSet(t, "rules: [{id: a, by: [api_key], limit: 1, window: 1h}]"), Reorder: DefaultReorder}
	one := Options{Limit: compiled(t, "1/h"), By: "key", Reorder: DefaultReorder}
	retried := one
	retried.Retries = PoliteRetries
	replayed := func(o Options) func(context.Context, Input) (int64, bool, error) {
		return func(ctx context.Context, in Input) (int64, bool, error) {
			r, err := Run(ctx, o, in)
			return r.Events, r.CutShort, err
		}
	}
	for name, run := range map[string]func(context.Context, Input) (int64, bool, error){
		"rules": replayed(rules), "limit": replayed(one), "retries": replayed(retried),
		"sweep": func(ctx context.Context, in Input) (int64, bool, error) {
			r, err := Sweep(ctx, one, []Swept{{1, one.Limit}}, in)
			return r.Events, r.CutShort, err
		},
	} {
		for _, line := range []string{recorded, logged} {
			ctx, interrupt := context.WithCancel(t.Context())
			events, cutShort, err := run(ctx, Input{Name: "log", Reader: stoppedReader{strings.NewReader(line + line), interrupt}})
			if !errors.Is(err, context.Canceled) || !cutShort || events != 2 {
				t.Errorf("%s of %.20s: %v, cut short %v, %d events, want 2", name, line, err, cutShort, events)
			}
			interrupt()
		}
	}
}
