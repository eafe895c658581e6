package decide

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/rule"
)

// counting is a rule set that counts its outcomes.
type counting struct {
	set              *rule.Set
	outcomes, errors int
}

func (c *counting) Of(rule.Attributes) Rules                                  { return c }
func (c *counting) CountError(rule.Attributes)                                { c.errors++ }
func (c *counting) RuleSet() *rule.Set                                        { return c.set }
func (c *counting) Read(a rule.Attributes) (rule.Attributes, error)           { return a, nil }
func (c *counting) Count(rule.Attributes, int64, *rule.Outcome, w3ctrace.Ref) { c.outcomes++ }

// calls is a store that counts calls, and fails them if err is not nil.
type calls struct {
	stint.Store
	err           error
	takes, groups int
}

func (c *calls) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	c.takes++
	if c.err != nil {
		return stint.Decision{}, c.err
	}
	return c.Store.Take(ctx, claim)
}

func (c *calls) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	c.groups++
	if c.err != nil {
		return c.err
	}
	return c.Store.TakeGroups(ctx, groups, out)
}

type world struct {
	store   calls
	rules   counting
	reports []Report
	batch   *Batch
}

func newWorld(t *testing.T) *world {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte("rules:\n  - {id: a, by: [api_key], limit: 1, window: 1h}\nblacklist: [\"bad*\"]\n")})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: calls{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})}, rules: counting{set: set}}
	w.batch = New(Options{
		Store: &w.store, Rules: func() Rules { return &w.rules },
		Observe: func(r Report) { w.reports = append(w.reports, r) },
	}).NewBatch()
	return w
}

func mustLimit(t *testing.T, text string) stint.Limit {
	t.Helper()
	l, err := stint.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestBatchDecidesAllItemsByOneCall(t *testing.T) {
	w := newWorld(t)
	b, limits := w.batch, []stint.Limit{mustLimit(t, "2/h")}
	for range 2 { // a batch is reused after End
		w.store.groups, w.rules.outcomes, w.reports = 0, 0, nil
		b.Fail(errors.New("invalid"))
		for _, err := range []error{
			b.Check(rule.Map{"api_key": "k"}, 0), b.Check(rule.Map{"api_key": "bad1"}, 1),
			b.Take(&Take{Key: "k", Limits: limits, Cost: 2}), b.Take(&Take{Key: "k", Limits: limits, Cost: 1}),
			b.Refund(&Take{Key: "k", Limits: limits, Cost: 2}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		b.Decide(t.Context(), time.Now())
		var allowed []bool
		for i := range b.Len() {
			a, err := b.Answer(i)
			if (err != nil) != (i == 0) {
				t.Fatalf("%d: %v", i, err)
			}
			allowed = append(allowed, err == nil && a.Decision.Allowed)
		}
		if want := []bool{false, true, false, true, false, true}; !slices.Equal(allowed, want) {
			t.Errorf("allowed %v, want %v", allowed, want)
		}
		if w.store.groups != 1 || w.store.takes != 0 || w.rules.outcomes != 2 || b.Failure() != nil {
			t.Errorf("%d calls, %d outcomes, failure %v", w.store.groups, w.rules.outcomes, b.Failure())
		}
		if r := w.reports[0]; len(w.reports) != 1 || r.Checks != 2 || r.Takes != 3 || r.Allowed != 2 || r.Denied != 1 {
			t.Errorf("%+v", w.reports)
		}
		b.End()
	}
}

// The deadline of a call is for its answer, and says nothing of the requests that its checks decide.
func TestDeadlineOfTheCallBoundsNoDelay(t *testing.T) {
	w := newWorld(t)
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte("rules:\n  - {id: a, by: [api_key], algorithm: leaky_bucket, params: {limit: 1, window: 1h, queue: 5}}\n")})
	if err != nil {
		t.Fatal(err)
	}
	w.rules.set = set
	limits := set.Rules()[0].Effective(set)[0].Limits
	for range 3 {
		_ = w.batch.Check(rule.Map{"api_key": "k"}, 1)
		_ = w.batch.Take(&Take{Key: "own", Limits: limits, Cost: 1})
	}
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	w.batch.Decide(ctx, time.Now())
	for i := range w.batch.Len() {
		if a, err := w.batch.Answer(i); err != nil || !a.Decision.Allowed || i >= 2 && a.Decision.Delay < 59*time.Minute {
			t.Errorf("%d: %v, %+v", i, err, a)
		}
	}
}

func TestAFailureOfTheStoreFailsEachItemThatNeedsIt(t *testing.T) {
	w := newWorld(t)
	b, limits := w.batch, []stint.Limit{mustLimit(t, "2/h")}
	w.store.err = &stint.Error{Code: stint.CodeUnavailable, Kind: "down", Problem: "no connection to 10.0.0.5"}
	_ = b.Check(rule.Map{"api_key": "k"}, 1)
	_ = b.Take(&Take{Key: "k", Limits: limits, Cost: 1})
	_ = b.Check(rule.Map{"api_key": "bad1"}, 1) // a list decides it
	b.Decide(t.Context(), time.Now())
	for i, fails := range []bool{true, true, false} {
		if _, err := b.Answer(i); (err != nil) != fails {
			t.Errorf("%d: %v", i, err)
		}
	}
	failed, ok := errors.AsType[*stint.Error](b.Failure())
	if !ok || strings.Contains(Explain(failed), "10.0.0.5") || w.reports[0].Allowed+w.reports[0].Denied != 0 {
		t.Errorf("%v, %+v", b.Failure(), w.reports)
	}
}

// A canary is judged by the errors. A caller could make them up by its mistakes.
func TestErrorsAreThoseOfTheStoreAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		key  string
		cost int64
		err  error
		want int
	}{
		{"the store fails", "k", 1, &stint.Error{Code: stint.CodeUnavailable, Kind: "down"}, 1},
		{"the store fails for a peek", "k", 0, &stint.Error{Code: stint.CodeUnavailable, Kind: "down"}, 0},
		{"a mistake of the caller", "k\n", 1, nil, 0},
		{"a mistake of the caller that the store finds", "k", 1, &stint.Error{Code: stint.CodeInvalid}, 0},
	} {
		w := newWorld(t)
		w.store.err = c.err
		if err := w.batch.Check(rule.Map{"api_key": c.key}, c.cost); err != nil {
			t.Fatal(err)
		}
		w.batch.Decide(t.Context(), time.Now())
		if _, err := w.batch.Answer(0); err == nil || w.rules.errors != c.want {
			t.Errorf("%s: %v, and %d errors are counted, want %d", c.name, err, w.rules.errors, c.want)
		}
	}
}

func TestInvalidItemsAreNotAdded(t *testing.T) {
	w := newWorld(t)
	b, limits := w.batch, []stint.Limit{mustLimit(t, "2/h")}
	for name, err := range map[string]error{
		"cost: -1 is out":           b.Check(rule.Map{}, -1),
		"key: is empty":             b.Take(&Take{Limits: limits, Cost: 1}),
		"key: has the control":      b.Take(&Take{Key: "a\n", Limits: limits, Cost: 1}),
		"limits: has 0 entries":     b.Take(&Take{Key: "k", Cost: 1}),
		"limits: has 33 entries":    b.Take(&Take{Key: "k", Limits: slices.Repeat(limits, 33), Cost: 1}),
		"limits: two are named":     b.Take(&Take{Key: "k", Limits: slices.Repeat(limits, 2), Cost: 1}),
		"cost: 1000000001 is out":   b.Take(&Take{Key: "k", Limits: limits, Cost: stint.MaxCost + 1}),
		"cost: 0 is out of range":   b.Refund(&Take{Key: "k", Limits: limits}),
		"at_us: -1 is not a time":   b.Take(&Take{Key: "k", Limits: limits, Cost: -1, At: -1}),
		"at_us: belongs to a cost ": b.Take(&Take{Key: "k", Limits: limits, Cost: 1, At: 1}),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), name) || IsFailure(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b.Len() != 0 {
		t.Errorf("%d items", b.Len())
	}
	_ = b.Take(&Take{Key: "k", Limits: limits, Cost: 1})
	b.Decide(t.Context(), time.Now())
	if _, err := b.Answer(0); err != nil || w.store.takes != 1 {
		t.Errorf("%v, %d takes", err, w.store.takes)
	}
}

func TestLimitsOfCallersAreMarked(t *testing.T) {
	for _, c := range []struct {
		spec          stint.Spec
		trusted, want bool
	}{
		{stint.Spec{}, false, true},
		{stint.Spec{}, true, true},
		{stint.Spec{Rule: "r"}, false, true},
		{stint.Spec{Rule: "r"}, true, false},
		{stint.Spec{Namespace: "n"}, true, false},
		{stint.Spec{Rule: "r", FromCaller: true}, true, true},
	} {
		if MarkCaller(&c.spec, c.trusted); c.spec.FromCaller != c.want {
			t.Errorf("%+v, trusted %v", c.spec, c.trusted)
		}
	}
}

func TestStringsStayWhileTheirBufferIsReused(t *testing.T) {
	var s Strings
	buffer, kept := []byte("key:00"), []string{}
	for range 2000 {
		buffer[5] = '0' + (buffer[5]-'0'+1)%10
		kept = append(kept, s.Keep(buffer))
	}
	long := s.Keep([]byte(strings.Repeat("x", stringBlock)))
	for i, got := range kept {
		if want := "key:0" + string(rune('0'+(i+1)%10)); got != want {
			t.Fatalf("%d: %q, want %q", i, got, want)
		}
	}
	if len(long) != stringBlock {
		t.Error(len(long))
	}
}
