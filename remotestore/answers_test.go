package remotestore

import (
	"errors"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/coalesce"
)

// A response that does not match the request is an error, not a decision.
func TestGarbledAnswersAreErrors(t *testing.T) {
	s, err := New(Options{Addr: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	limit, err := stint.ParseLimit("5/h")
	if err != nil {
		t.Fatal(err)
	}
	for says, m := range map[string]*stintv1.TakeBatchResponse{
		"it decides nothing":                {},
		"a column does not fit":             {Decisions: &stintv1.Decisions{Limit: []int64{5}, Allowed: []bool{true, true}}},
		"more groups than were asked for":   {Decisions: &stintv1.Decisions{Limit: []int64{5}}, Failures: []*stintv1.Failure{{Index: 3}}},
		"its failures are out of order":     {Decisions: &stintv1.Decisions{Limit: []int64{5}}, Failures: []*stintv1.Failure{{Index: 2}, {Index: 0}}},
		"more groups than were asked for: ": {Failures: []*stintv1.Failure{{Index: 1 << 31}}},
	} {
		f := s.newInFlight()
		var calls []*coalesce.Call[pending]
		for range 3 {
			c := s.borrow()
			c.addOne(stint.Claim{Key: "k", Limit: limit, Cost: 1})
			calls = append(calls, &c.Call)
			f.columns.add(c)
		}
		err, text := f.assign(calls, m), strings.TrimSuffix(says, ": ")
		if coded := new(stint.Error); !errors.As(err, &coded) || coded.Code != stint.CodeInternal || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: want an internal error that says %q", err, text)
		}
	}
}
