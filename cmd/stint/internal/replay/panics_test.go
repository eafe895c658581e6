package replay

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// breaking is a store and an input that panic.
type breaking struct{ stint.Store }

func (breaking) Take(context.Context, stint.Claim) (stint.Decision, error) { panic("defect") }

func (breaking) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { panic("defect") }

func (breaking) Read([]byte) (int, error) { panic("defect") }

// A panic in any goroutine of a replay is its error, and the replay has an empty report.
func TestAPanicFailsTheReplay(t *testing.T) {
	rules := ruleSet(t, "rules: [{id: one, by: [api_key], limit: 1/m}, {id: two, by: [ip], limit: 1/m}]")
	limit := compiled(t, "1/m")
	store := func(func() time.Time) stint.Store { return breaking{} }
	events := strings.Repeat(request(`"api_key":"k"`), 3*progressEvery)
	for name, o := range map[string]Options{
		"store under rules":    {Rules: rules, Store: store},
		"store under a limit":  {Limit: limit, By: "api_key", Store: store},
		"store under retries":  {Rules: rules, Retries: HammerRetries, Store: store},
		"hash of a denied key": {Rules: rules, Hash: func(string) string { panic("defect") }},
		"progress":             {Rules: rules, Progress: func(Progress) { panic("defect") }},
		"decisions":            {Rules: rules, Decisions: breakingWriter{}},
		"input":                {Rules: rules},
	} {
		in := inputsOf(events)
		if name == "input" {
			in = append(in, Input{Name: "broken", Reader: io.MultiReader(strings.NewReader(events), breaking{})})
		}
		report, err := Run(t.Context(), o, in...)
		defect, ok := errors.AsType[*PanicError](err)
		if !ok || defect.Value != "defect" || !strings.Contains(string(defect.Stack), "panics_test.go") || !reflect.DeepEqual(report, emptyReport()) {
			t.Errorf("%s: %v after %d events", name, err, report.Events)
		}
	}
	if _, err := Sweep(t.Context(), Options{By: "ip"}, []Swept{{1, limit}}, Input{Name: "broken", Reader: breaking{}}); !isPanic(err) {
		t.Errorf("a sweep: %v", err)
	}
}

type breakingWriter struct{}

func (breakingWriter) Write([]byte) (int, error) { panic("defect") }

func isPanic(err error) bool {
	_, ok := errors.AsType[*PanicError](err)
	return ok
}

// The goroutines that count drop what comes after a panic, so that the sender never waits.
func TestBackgroundDropsWhatComesAfterAPanic(t *testing.T) {
	worked := 0
	err := guarded(t.Context(), func(ctx context.Context, fails *panics) error {
		b := newBackground(4, fails, func([]int) { worked++; panic("defect") })
		for i := range 1000 {
			*b.next() = i
		}
		b.finish()
		return ctx.Err()
	})
	if !isPanic(err) || worked != 1 {
		t.Errorf("%v after %d batches", err, worked)
	}
}
