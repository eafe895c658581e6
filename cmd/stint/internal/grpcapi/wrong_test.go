package grpcapi

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

// failing is a store that fails.
type failing struct{ err error }

func (f failing) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, f.err
}

func (f failing) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { return f.err }

func TestWrongTakesSayWhatIsWrong(t *testing.T) {
	r := run(t, Options{Private: true})
	limits := []*stintv1.Limit{perMinute(5)}
	many := make([]*stintv1.Limit, 33)
	for i := range many {
		many[i] = perMinute(5)
	}
	for says, m := range map[string]*stintv1.TakeRequest{
		"key: is empty":                              {Limits: limits},
		"key: has the control character":             {Key: "a\x00b", Limits: limits},
		"key: is 4097 bytes long":                    {Key: strings.Repeat("k", 4097), Limits: limits},
		"limits: has 0 entries (give 1 to 32)":       {Key: "k"},
		"limits: has 33 entries":                     {Key: "k", Limits: many},
		"limits[1]: algorithm":                       {Key: "k", Limits: []*stintv1.Limit{perMinute(5), {Algorithm: "luck"}}},
		"limits[0]: window_us: -1 is out of range":   {Key: "k", Limits: []*stintv1.Limit{{Limit: 1, WindowUs: -1}}},
		"limits[0]: window_us: 9223372036854775807":  {Key: "k", Limits: []*stintv1.Limit{{Limit: 1, WindowUs: math.MaxInt64}}},
		"limits[0]: limit":                           {Key: "k", Limits: []*stintv1.Limit{{Limit: -5, WindowUs: 1e6}}},
		"limits[0]: buckets":                         {Key: "k", Limits: []*stintv1.Limit{{Algorithm: "sliding_window_counter", Limit: 1, WindowUs: 1e6, Buckets: math.MaxUint32}}},
		"cost: 1000000001 is out of range":           {Key: "k", Limits: limits, Cost: proto.Int64(stint.MaxCost + 1)},
		"cost: -9223372036854775808 is out of range": {Key: "k", Limits: limits, Cost: proto.Int64(stint.Forget)},
		"at_us: belongs to a cost below 0":           {Key: "k", Limits: limits, AtUs: 5},
		"at_us: -5 is not a time":                    {Key: "k", Limits: limits, Cost: proto.Int64(-1), AtUs: -5},
		"extra: -1 is out of range":                  {Key: "k", Limits: limits, Extra: -1},
		"on_store_failure: 9 is not known":           {Key: "k", Limits: limits, OnStoreFailure: 9},
		"limits: two are named token_bucket:1m":      {Key: "k", Limits: []*stintv1.Limit{perMinute(5), perMinute(6)}},
	} {
		_, err := r.Take(t.Context(), m)
		wantCode(t, says, err, codes.InvalidArgument, says)
		f := r.streamed(t, &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Take{Take: m}}).GetFailure()
		if f.GetCode() != int32(codes.InvalidArgument) || !strings.Contains(f.GetMessage(), says) {
			t.Errorf("stream: %v, want %q", f, says)
		}
	}
	if r.failed.Load() != 0 {
		t.Error("mistakes of callers are logged")
	}
}

func TestWrongBatchesSayWhatIsWrong(t *testing.T) {
	r := run(t, Options{Private: true})
	limits := []*stintv1.Limit{perMinute(5)}
	keys := []string{"a", "b", "c"}
	for says, m := range map[string]*stintv1.TakeBatchRequest{
		"limit: entry 0 is 0, and limits has 0":        {Keys: keys},
		"limit: entry 2 is 1, and limits has 1":        {Keys: keys, Limits: limits, Limit: []uint32{0, 0, 1}},
		"cost: has 2 entries for 3":                    {Keys: keys, Limits: limits, Cost: []int64{1, 2}},
		"any: entry 1 is 256":                          {Keys: keys, Limits: limits, Any: []uint32{0, 256, 0}},
		"replicas: entry 0 is 256":                     {Keys: keys, Limits: limits, Replicas: []uint32{256}},
		"consistency: entry 0 is 4":                    {Keys: keys, Limits: limits, Consistency: []stintv1.Consistency{4}},
		"on_store_failure: entry 0 is -1":              {Keys: keys, Limits: limits, OnStoreFailure: []stintv1.OnStoreFailure{-1}},
		"local_limit: entry 0 is 4294967295":           {Keys: keys, Limits: limits, LocalLimit: []uint32{math.MaxUint32}},
		"local_limit: entry 1 is 2, and limits has 1":  {Keys: keys, Limits: limits, LocalLimit: []uint32{1, 2, 0}},
		"group_sizes: more than the 3 claims":          {Keys: keys, Limits: limits, GroupSizes: []uint32{1, math.MaxUint32}},
		"group_sizes: leaves 2 of 3 claims":            {Keys: keys, Limits: limits, GroupSizes: []uint32{1}},
		"max_delay_us: has 2 entries for 3":            {Keys: keys, Limits: limits, MaxDelayUs: []int64{1, 2}},
		"limits[0]: max_wait_us: -1 is out of range":   {Keys: keys, Limits: []*stintv1.Limit{{Algorithm: "leaky_bucket", Limit: 1, WindowUs: 1e6, MaxWaitUs: -1}}},
		"group_sizes: has 10001 entries":               {GroupSizes: make([]uint32, 10_001)},
		"shadow: has 2 entries for 3":                  {Keys: keys, Limits: limits, Shadow: []bool{true, false}},
		"raw_keys: stands in place of keys":            {Keys: keys, RawKeys: [][]byte{{1}}, Limits: limits},
		"keys: has 10001 entries (give at most 10000)": {Keys: make([]string, 10_001), Limits: limits},
		"limits: has 1025 entries (give at most 1024)": {Keys: keys, Limits: make([]*stintv1.Limit, 1025)},
		"limits[0]: refill_rate: is missing":           {Keys: keys, Limits: make([]*stintv1.Limit, 1)},
	} {
		_, err := r.TakeBatch(t.Context(), m)
		wantCode(t, says, err, codes.InvalidArgument, says)
	}
	for says, m := range map[string]*stintv1.CheckBatchRequest{
		"names: has 0 entries":                  {Values: []string{"a"}},
		"names[1]: is given twice":              {Names: []string{"ip", "ip"}},
		"values: has 3 entries":                 {Names: []string{"ip", "path"}, Values: make([]string, 3)},
		"values: has 10001 rows":                {Names: []string{"ip"}, Values: make([]string, 10_001)},
		"cost: has 2 entries for 3":             {Names: []string{"ip"}, Values: make([]string, 3), Cost: []int64{1, 2}},
		"names: has 257 entries (give 1 to 256": {Names: make([]string, 257)},
	} {
		_, err := r.CheckBatch(t.Context(), m)
		wantCode(t, says, err, codes.InvalidArgument, says)
	}
	_, err := r.Check(t.Context(), &stintv1.CheckRequest{})
	wantCode(t, "no attributes", err, codes.InvalidArgument, "attributes: is missing")
}

// An invalid group of a batch fails alone, whatever an earlier batch left in the
// pooled memory. Neither it nor a shadow group is counted.
func TestWrongGroupsLeaveTheOthers(t *testing.T) {
	r := run(t, Options{})
	for i := range int64(5) {
		full := &stintv1.TakeBatchRequest{Keys: []string{"x", "y", "z", "x"}, Limits: []*stintv1.Limit{perMinute(5)}}
		if _, err := r.TakeBatch(t.Context(), full); err != nil {
			t.Fatal(err)
		}
		r.taken.Store(0)
		got, err := r.TakeBatch(t.Context(), &stintv1.TakeBatchRequest{
			Keys: []string{"", "a", "", "a"}, Limits: []*stintv1.Limit{perMinute(50)}, Shadow: []bool{false, false, false, true},
		})
		if err != nil {
			t.Fatal(err)
		}
		f := got.GetFailures()
		if len(f) != 2 || f[0].GetIndex() != 0 || f[1].GetIndex() != 2 || f[1].GetCode() != int32(codes.InvalidArgument) {
			t.Errorf("failures: %v", f)
		}
		for at, remaining := range []int64{0, 49 - i, 0, 49 - i} { // a shadow after a failed group charges nothing
			if d := decisionAt(got.GetDecisions(), at); d.GetRemaining() != remaining || d.GetAllowed() != (remaining > 0) || (d.GetAtUs() > 0) != (remaining > 0) {
				t.Errorf("decision %d: %v", at, d)
			}
		}
		if n := r.taken.Load(); n != 1 {
			t.Errorf("%d decisions were counted", n)
		}
	}
}

// An open circuit breaker is not logged for each call: it was logged when it opened.
func TestStoreThatIsLeftAloneIsNoNews(t *testing.T) {
	r := runOver(t, failing{&stint.Error{Code: stint.CodeUnavailable, Kind: "breaker_open"}}, Options{})
	_, err := r.Take(t.Context(), &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{perMinute(5)}})
	wantCode(t, "take", err, codes.Unavailable, "breaker_open")
	if n := r.failed.Load(); n != 0 {
		t.Errorf("%d log lines", n)
	}
}

// until is a context whose deadline is set but whose own timer never fires.
type until struct {
	context.Context //nolint:containedctx // lateContext is itself a context

	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

// A store with a timer of its own may end a call before the context does. A timeout
// caused by the caller's short deadline is not logged.
func TestTimeThatIsOverIsNoNews(t *testing.T) {
	r := runOver(t, failing{&stint.Error{Code: stint.CodeTimeout, Kind: "timeout"}}, Options{})
	for after, lines := range map[time.Duration]int64{-time.Microsecond: 0, time.Hour: 1} {
		r.failed.Store(0)
		_, err := r.service.Take(until{t.Context(), time.Now().Add(after)}, &stintv1.TakeRequest{Key: "k", Limits: []*stintv1.Limit{perMinute(5)}})
		if wantCode(t, "take", err, codes.DeadlineExceeded, "timeout"); r.failed.Load() != lines {
			t.Errorf("%v after the deadline %d log lines", -after, r.failed.Load())
		}
	}
}

// Callers with ever new limits do not fill the memory.
func TestCachedLimitsAreBounded(t *testing.T) {
	c := newLimitCache()
	get := func(s stint.Spec) {
		t.Helper()
		if _, err := c.get(&s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(maxCachedLimits + 10) {
		get(stint.PerMinute(1 + i))
	}
	if n := c.Len(); n != maxCachedLimits {
		t.Errorf("%d limits are cached", n)
	}
	long := stint.Spec{Algorithm: stint.Quota, Limit: 1, Period: "30d", Anchor: "2026-01-31T00:00:00." + strings.Repeat("0", maxCachedText) + "Z"}
	get(long)
	if _, ok := c.Get(long); ok {
		t.Error("a limit with a long text is cached")
	}
}

// FuzzMessages sends messages that no client would. Each gets an answer or a status
// that says that the caller is wrong.
func FuzzMessages(f *testing.F) {
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(someRules)})
	if err != nil {
		f.Fatal(err)
	}
	s := New(Options{Private: true, Decider: deciderOver(stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000}), &fixed{set: set}, nil)})
	for _, m := range []proto.Message{
		&stintv1.TakeBatchRequest{Keys: []string{"a", "b"}, Limits: algorithms(), Limit: []uint32{1, 2}, GroupSizes: []uint32{0, 2}, Shadow: []bool{true}, LocalLimit: []uint32{1}},
		&stintv1.CheckBatchRequest{Names: []string{"api_key", "path"}, Values: []string{"a", "/both"}},
		&stintv1.TakeRequest{Key: "k", Limits: algorithms()[:2], Extra: 5},
		&stintv1.CheckRequest{Attributes: map[string]string{"path": "/orders", "ip": "x"}, Cost: proto.Int64(-1)},
	} {
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, ask := range []func() error{
			func() error { return fuzzed(text, s.TakeBatch) },
			func() error { return fuzzed(text, s.CheckBatch) },
			func() error { return fuzzed(text, s.Take) },
			func() error { return fuzzed(text, s.Check) },
			func() error { return fuzzed(text, s.GiveBack) },
			func() error { return fuzzed(text, s.Reset) },
		} {
			if err := ask(); err != nil && status.Code(err) != codes.InvalidArgument && !errors.Is(err, proto.Error) {
				t.Error(err)
			}
		}
	})
}

// fuzzed makes a call with a message of the given text.
func fuzzed[M any, A any, P interface {
	*M
	proto.Message
}](text []byte, call func(context.Context, P) (A, error)) error {
	m := P(new(M))
	if err := proto.Unmarshal(text, m); err != nil {
		return err
	}
	_, err := call(context.Background(), m)
	return err
}

// allFail fails every part of a call by itself.
type allFail struct{ stint.Store }

func (allFail) TakeGroups(_ context.Context, groups []stint.Group, _ []stint.Decision) error {
	_, parts := stint.Sizes(groups)
	return &stint.GroupsError{Errs: slices.Repeat([]error{&stint.Error{Code: stint.CodeUnavailable}}, parts)}
}

// The group that shadows at the beginning of a message observe is not in the message, so
// no failure names it.
func TestFailuresNameOnlyGroupsOfTheMessage(t *testing.T) {
	r := runOver(t, allFail{}, Options{})
	got, err := r.TakeBatch(t.Context(), &stintv1.TakeBatchRequest{
		Keys: []string{"a", "b", "c"}, Limits: []*stintv1.Limit{perMinute(5)}, Shadow: []bool{true, false, true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range got.GetFailures() {
		if f.GetIndex() != uint32(i) {
			t.Errorf("failure %d is of group %d", i, f.GetIndex())
		}
	}
	if n := len(got.GetFailures()); n != 3 {
		t.Errorf("%d failures, want 3", n)
	}
}
