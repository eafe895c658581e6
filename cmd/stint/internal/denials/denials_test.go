package denials

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/envoyrls"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

// recording is a rule set whose decisions are recorded.
type recording struct {
	*Recent

	t        *testing.T
	set      *rule.Set
	recorder *Recorder
	store    stint.Store
	time     time.Time
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const shop = `
tiers: {pro: {api_key_pattern: "sk_pro_*", limit: 1, window: 1h}}
blacklist: ["sk_banned_*"]
rules:
  - {id: orders, match: {path_prefix: /orders}, by: [api_key], limit: 1, window: 1h}
  - {id: users, match: {path_prefix: /users}, by: ["header:x-user", ip], limit: 1, window: 1h}
  - {id: watched, match: {path_prefix: /users}, by: ["header:x-plan"], limit: 100, window: 1h}
`

func parse(t testing.TB, text string) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newRecording(t *testing.T) *recording {
	t.Helper()
	r := &recording{t: t, set: parse(t, shop), time: noon}
	now := func() time.Time { return r.time }
	r.Recent, r.store = New(Options{Surfaces: []string{"check", "gateway"}, Now: now}), stint.NewMemory(stint.MemoryOptions{Clock: now})
	r.recorder = r.Rules(r.set)
	return r
}

func (r *recording) decide(a rule.Map, cost int64) {
	r.t.Helper()
	r.time = r.time.Add(time.Millisecond)
	o, err := r.set.Decide(r.t.Context(), r.store, a, cost)
	if err != nil {
		r.t.Fatal(err)
	}
	r.recorder.Record(1, a, cost, &o)
}

func (r *recording) read(q Query) Page {
	r.t.Helper()
	if q.Limit == 0 {
		q.Limit = MaxLimit
	}
	p, err := r.Read(q)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func TestADenialSaysWhatTheDecisionSaid(t *testing.T) {
	r := newRecording(t)
	a := rule.Map{"api_key": "sk_live_customer_42", "path": "/orders/7?token=secret", "ip": "192.0.2.1"}
	r.decide(a, 1) // allowed
	r.decide(a, 0) // a peek
	r.decide(a, 1)
	r.decide(a, 3)
	r.decide(rule.Map{"api_key": "sk_banned_7", "path": "/x/sk_banned_7", "ip": "203.0.113.9"}, 1)
	got := r.read(Query{})
	if len(got.Items) != 3 || got.LeftOut != 0 || got.Overwritten != 0 {
		t.Fatalf("%+v", got)
	}
	if got := r.read(Query{Keys: []uint64{}, Part: "203.0.113.9"}).Items; len(got) != 1 || got[0].List != "deny" {
		t.Errorf("by address: %+v", got)
	}
	listed, never, first := got.Items[0], got.Items[1], got.Items[2]
	if first.Rule != "orders" || first.Limit == "" || first.Key != "sk_liv…" || first.Path != "/orders/7" || first.Surface != "gateway" || first.Cost != 1 ||
		*first.Max != 1 || *first.Remaining != 0 || *first.RetryAfterMS != 3_599_998 || first.Never || first.List != "" || first.Penalty != "" ||
		!first.Time.Equal(noon.Add(3*time.Millisecond)) {
		t.Errorf("%+v", first)
	}
	if !never.Never || never.RetryAfterMS != nil || never.Cost != 3 || never.Hash != first.Hash || never.ID != first.ID {
		t.Errorf("%+v", never)
	}
	if listed.Rule != "" || listed.List != "deny" || listed.Max != nil || listed.Path != "/x/…" || listed.Key != "sk_…" {
		t.Errorf("%+v", listed)
	}
	limit, err := stint.Spec{Rule: "orders", Limit: 1, Window: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if want := topkeys.ID(topkeys.Hash("sk_live_customer_42"), topkeys.Hash(limit.Rule()), false); first.ID != want {
		t.Errorf("id %d, want that of the top keys", first.ID)
	}
}

// A caller cannot choose a key whose denials appear under the hash of another key.
func TestNoKeyHasTheHashOfAnID(t *testing.T) {
	r := newRecording(t)
	a := rule.Map{"api_key": "id 7", "path": "/orders/7", "ip": "192.0.2.1"}
	r.decide(a, 1)
	r.decide(a, 1)
	if got := r.read(Query{}).Items; len(got) != 1 || got[0].Hash == r.HashID(7) {
		t.Errorf("%+v", got)
	}
	if got := r.read(Query{Hash: r.HashID(7)}).Items; len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestTakesAndEnvoyAreRecorded(t *testing.T) {
	r := newRecording(t)
	limit, err := stint.Spec{Name: "chosen_by_caller", Limit: 1, Window: time.Hour, FromCaller: true}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	claim := &stint.Claim{Key: "user:1234567", Limit: limit, Cost: 1}
	denied, again := &stint.Decision{Limit: 1, RetryAfter: time.Second, At: 1}, &stint.Decision{Limit: 1, RetryAfter: time.Second, At: 2}
	r.RecordTake(0, &stint.Claim{Key: "peek", Limit: limit}, denied)
	r.RecordTake(0, claim, denied)
	decided := &envoyrls.Decided{Rule: "domain", Limit: "domain.remote_address", Key: stint.JoinKey("203.0.113.9", "remote_address", "domain"), Cost: 2, Decision: *again}
	r.RecordEnvoy(1, decided)
	decided.Allowed = true
	r.RecordEnvoy(1, decided)
	if got := r.read(Query{Keys: []uint64{}, Part: "203.0.113.9"}).Items; len(got) != 1 || got[0].Rule != Envoy {
		t.Errorf("by a part: %+v", got)
	}
	got := r.read(Query{}).Items
	if len(got) != 2 || got[0].Rule != Envoy || got[0].Limit != "domain.remote_address" || got[0].Cost != 2 ||
		got[1].Rule != decisionlog.Takes || got[1].Limit != "" || got[1].Key != "user…" {
		t.Errorf("%+v", got)
	}
}

// No identity of a request is in a masked path, whole, encoded, or cut.
func TestPathsShowNoIdentity(t *testing.T) {
	r := newRecording(t)
	long := "sk_live_" + strings.Repeat("x", 200)
	for path, want := range map[string]string{
		"/users/alice99/orders":       "/users/…/orders",
		"/users/al%69ce99":            "/users/…",
		"/users/al%2569ce99":          "/users/…",
		"/users/203.0.113.9":          "/users/…",
		"/users/gold-plan":            "/users/…", // of another rule
		"/users/sk_pro_other":         "/users/…", // a pattern of the rules
		"/users/my-sk_live_12345-key": "/users/…",
		"/users/public?alice99":       "/users/public",
		"/users/" + strings.Repeat("segment/", 20) + "sk_live_12345": "/users/" + strings.Repeat("segment/", 15) + "…",
		"/users/" + strings.Repeat("s", 300):                         "/users/…",
	} {
		a := rule.Map{"api_key": "sk_live_12345", "header:x-user": "alice99", "header:x-plan": "gold-plan", "ip": "203.0.113.9", "path": path}
		r.decide(a, 2)
		if got := r.read(Query{Limit: 1}).Items[0]; got.Path != want || got.Rule != "users" {
			t.Errorf("%s: %+v, want %s", path, got, want)
		}
	}
	r.decide(rule.Map{"api_key": long, "path": "/orders/a-" + long[:90]}, 2)
	r.decide(rule.Map{"api_key": "sk_live_12345", "header:x-user": long, "header:x-plan": "gold", "ip": "203.0.113.9", "path": "/users/203.0.113.9"}, 2)
	got := r.read(Query{Limit: 2}).Items
	if got[1].Path != "/orders/…" || got[1].Key != "sk_live_…" || got[0].Path != "…" {
		t.Errorf("%+v", got)
	}
	if got[0].Hash == got[1].Hash {
		t.Error("two long keys have one hash")
	}
}

// A path stays masked when rules without the pattern of a key come into force, or are tried beside.
func TestPathsStayMaskedUnderOtherRules(t *testing.T) {
	r := newRecording(t)
	r.decide(rule.Map{"api_key": "k", "path": "/orders/sk_pro_other"}, 2)
	for i := range 3 { // the same patterns each time
		r.Rules(parse(t, fmt.Sprintf("rules: [{id: orders, by: [api_key], limit: %d, window: 60}]", i+1)))
	}
	if got := r.read(Query{}).Items[0].Path; got != "/orders/…" {
		t.Error(got)
	}
}

func TestQueries(t *testing.T) {
	r := newRecording(t)
	for i := range 5 {
		r.decide(rule.Map{"api_key": fmt.Sprint("k", i), "path": "/orders"}, 2)
		r.decide(rule.Map{"header:x-user": fmt.Sprint("k", i), "ip": "192.0.2.1", "path": "/users"}, 2)
	}
	all := r.read(Query{})
	orders, none := "orders", "none"
	for name, c := range map[string]struct {
		query Query
		want  int
	}{
		"rule":      {Query{Rule: &orders}, 5},
		"no rule":   {Query{Rule: &none}, 0},
		"key":       {Query{Keys: []uint64{topkeys.Hash("k1"), topkeys.Hash("k2")}}, 2},
		"no keys":   {Query{Keys: []uint64{}}, 0},
		"part":      {Query{Keys: []uint64{}, Part: "192.0.2.1"}, 0},
		"hash":      {Query{Hash: all.Items[3].Hash}, 1},
		"id":        {Query{ID: all.Items[3].ID}, 1},
		"since":     {Query{Since: noon.Add(3 * time.Millisecond)}, 8},
		"too late":  {Query{Since: noon.Add(time.Minute)}, 0},
		"nothing":   {Query{After: all.Next}, 0},
		"restarted": {Query{After: "1f-9-9"}, 10},
	} {
		if got := r.read(c.query); len(got.Items) != c.want || got.Overwritten != 0 {
			t.Errorf("%s: %d items, want %d", name, len(got.Items), c.want)
		}
	}
	if got := r.read(Query{Limit: 3}); len(got.Items) != 3 || got.LeftOut != 7 || got.Items[0].Rule != "users" {
		t.Errorf("%+v", got)
	}
	r.decide(rule.Map{"api_key": "later", "path": "/orders"}, 2)
	if got := r.read(Query{After: all.Next}); len(got.Items) != 1 || got.Items[0].Key != "l…" {
		t.Errorf("%+v", got)
	}
	process, turn, _ := strings.Cut(all.Next, "-")
	turn, _, _ = strings.Cut(turn, "-")
	if got := r.read(Query{After: process + "-" + turn + "-18446744073709551615"}); got.Overwritten != 0 {
		t.Errorf("a made-up position: %d denials are overwritten", got.Overwritten)
	}
	for _, wrong := range []string{"1", "x-1-1", "1-x-1", "1-1", "--", "1-99999999999999999999-1"} {
		if _, err := r.Read(Query{After: wrong}); err == nil {
			t.Errorf("after %q is taken", wrong)
		}
	}
}

// A flood on one rule, of a million keys and paths, keeps the denials of another rule, and the
// memory stays within its bound.
func TestAFloodHidesNoOtherRule(t *testing.T) {
	r := newRecording(t)
	r.decide(rule.Map{"header:x-user": "alice", "ip": "192.0.2.1", "path": "/users"}, 2)
	before := r.read(Query{}).Next
	o, err := r.set.Decide(t.Context(), r.store, rule.Map{"api_key": "k", "path": "/orders"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1_000_000 {
		o.Hits[0].Key = fmt.Sprint("invented", i)
		r.recorder.Record(0, rule.Map{"api_key": o.Hits[0].Key, "path": "/orders/" + o.Hits[0].Key}, 1, &o)
	}
	users := "users"
	if got := r.read(Query{Rule: &users}); len(got.Items) != 1 {
		t.Errorf("%+v", got)
	}
	got := r.read(Query{After: before})
	if held := uint64(len(got.Items) + got.LeftOut); held+got.Overwritten != 1_000_000 || got.Overwritten < 990_000 {
		t.Errorf("%d held, %d overwritten", held, got.Overwritten)
	}
	if n := r.entries(); n > maxEntries || n*entrySize > 4<<20 {
		t.Errorf("%d entries of %d bytes", n, entrySize)
	}
}

func (r *recording) entries() (n int) {
	for _, s := range r.allLocked() {
		n += s.size()
	}
	return n
}

// One busy key displaces an eighth of the other keys of its rule at most.
func TestABusyKeyLeavesOtherKeysOfItsRule(t *testing.T) {
	r := newRecording(t)
	for i := range 80 {
		r.decide(rule.Map{"api_key": fmt.Sprint("quiet", i), "path": "/orders"}, 2)
	}
	for range 20_000 {
		r.decide(rule.Map{"api_key": "busy", "path": "/orders"}, 2)
	}
	quiet := 0
	for i := range 80 {
		quiet += len(r.read(Query{Keys: []uint64{topkeys.Hash(fmt.Sprint("quiet", i))}}).Items)
	}
	if quiet < 50 || quiet == 80 {
		t.Errorf("%d of 80 are left", quiet)
	}
}

// Denials stay over a reload, whatever the number of rules.
func TestDenialsStayOverReloads(t *testing.T) {
	r := newRecording(t)
	for i := range 100 {
		r.decide(rule.Map{"api_key": fmt.Sprint("k", i), "path": "/orders"}, 2)
	}
	many := &strings.Builder{}
	for i := range 5000 {
		fmt.Fprintf(many, "  - {id: r%d, match: {path: /r%d}, by: [api_key], limit: 1, window: 1h}\n", i, i)
	}
	r.set = parse(t, shop+many.String())
	r.recorder = r.Rules(r.set)
	if n := r.entries(); n > maxEntries {
		t.Errorf("%d entries", n)
	}
	last := r.read(Query{})
	if len(last.Items) == 0 || last.Items[0].Key != "k…" || last.Items[0].Rule != "orders" {
		t.Errorf("%+v", last)
	}
	for _, path := range []string{"/r4998", "/r4999"} {
		r.decide(rule.Map{"api_key": "k", "path": path}, 2)
		if got := r.read(Query{Limit: 1}).Items[0]; got.Path != path || got.Rule != "r"+path[2:] {
			t.Errorf("%+v", got)
		}
	}
	for range 2 { // the rules before the last set are forgotten
		r.Rules(parse(t, "rules: [{id: other, limit: 1/h}]"))
		r.Rules(parse(t, "rules: [{id: another, limit: 1/h}]"))
	}
	if got := r.read(Query{}); len(got.Items) > 2 { // of the rules that shared one
		t.Errorf("%d items", len(got.Items))
	}
}

func TestReadersAndWritersTogether(t *testing.T) {
	r := newRecording(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 500 {
				a := rule.Map{"api_key": fmt.Sprint("k", i, j), "path": "/orders"}
				if o, err := r.set.Decide(t.Context(), r.store, a, 2); err == nil {
					r.recorder.Record(1, a, 2, &o)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			r.Rules(parse(t, shop))
			r.Rules(parse(t, shop+"  - {id: more, limit: 1/h}\n"))
		}
	})
	seen, after := 0, ""
	all.Go(func() {
		for range 50 {
			got := r.read(Query{After: after})
			seen, after = seen+len(got.Items), got.Next
		}
	})
	all.Wait()
	if seen += len(r.read(Query{After: after}).Items); seen > 2000 || seen < 100 {
		t.Errorf("%d of 2000 are seen", seen)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	r := newRecording(t)
	a := rule.Map{"api_key": "sk_live_customer_42", "path": "/orders/7", "ip": "192.0.2.1"}
	o, err := r.set.Decide(t.Context(), r.store, a, 2)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { r.recorder.Record(0, a, 1, &o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// fixed has the attributes of a request without a search.
type fixed struct{ key, path string }

func (f *fixed) Attribute(name string) (string, bool) {
	if name == "path" {
		return f.path, true
	}
	return f.key, name == "api_key"
}

// BenchmarkRecord measures a denial of one key and of many.
func BenchmarkRecord(b *testing.B) {
	set := parse(b, shop)
	store := stint.NewMemory(stint.MemoryOptions{})
	r := New(Options{Surfaces: []string{"check"}})
	recorder := r.Rules(set)
	a := &fixed{"sk_live_customer_42", "/orders/7"}
	o, err := set.Decide(b.Context(), store, a, 2)
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprint("sk_live_invented_", i)
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			recorder.Record(0, a, 1, &o)
		}
	})
	b.Run("many", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			a.key = keys[i%len(keys)]
			o.Hits[0].Key = a.key
			recorder.Record(0, a, 1, &o)
		}
	})
}
