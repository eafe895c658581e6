package replay

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

// The names with the greatest counts have details, whatever came between.
func TestRankingKeepsTheGreatest(t *testing.T) {
	r := newRanking[string]()
	random := rand.New(rand.NewPCG(1, 2))
	want := map[uint64]uint64{}
	for i := range 400_000 {
		u := random.Float64()
		hash := (uint64(50_000*u*u*u) + 1) * 0x9e3779b97f4a7c15
		if i%3 == 0 { // names that come once
			hash = random.Uint64()
		}
		want[hash]++
		if text, first := r.add(hash); first {
			*text = fmt.Sprint(hash)
		}
		if len(r.details) > mostDetails {
			t.Fatalf("%d names have details, want at most %d", len(r.details), mostDetails)
		}
	}
	counts := make([]uint64, 0, len(want))
	for _, n := range want {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(a, b uint64) int { return int(b) - int(a) })
	all := r.sorted(func(a, b *ranked[string]) int { return strings.Compare(a.of, b.of) })
	for i, one := range all[:MostTop] {
		if one.count != counts[i] || one.count != want[one.hash] || one.of != fmt.Sprint(one.hash) {
			t.Fatalf("name %d has %d, want %d", i, one.count, counts[i])
		}
	}
}

func TestFewValuesKeepsTheFrequent(t *testing.T) {
	var f fewValues
	for i := range 1000 {
		f.add("often")
		f.add(fmt.Sprint("once ", i))
		if i%2 == 0 {
			f.add(strings.Repeat("x", 500))
		}
	}
	top := f.top(2)
	if top[0].Value != "often" || top[0].Count > 1000 || top[0].Count < 1000-2500/(mostValues+1) {
		t.Errorf("the most frequent is %+v", top[0])
	}
	if top[1].Value != strings.Repeat("x", mostValueText) || len(f.values) > mostValues {
		t.Errorf("then %+v, of %d", top[1], len(f.values))
	}
}

func TestCallersAreCounted(t *testing.T) {
	events := strings.Repeat(`{"t_us":1000000,"api_key":"sk_live_aaaaaaaaaaaaaaaa","ip":"192.0.2.1","path":"/a","status":200,"header:user-agent":"curl\u001b[2J"}`+"\n", 4) +
		strings.Repeat(`{"t_us":1500000,"api_key":"sk_live_bbbbbbbbbbbbbbbb","ip":"192.0.2.1","path":"/b"}`+"\n", 3) +
		strings.Repeat(`{"t_us":2000000,"ip":"2001:db8::1","path":"/b"}`+"\n", 2) +
		strings.Repeat(`{"t_us":2000000,"path":"/b"}`+"\n", 1) // no rule by ip counts it
	set := ruleSet(t, "rules:\n  - {id: one, by: [api_key], limit: 1, window: 60}\n")
	hash := func(text string) string { return fmt.Sprintf("%016x", maphash.String(testSeed, text)) }
	_, s := replayed(t, Options{Rules: set, Hash: hash}, inputsOf(events)...)
	if s.Callers != 4 && s.Unreadable == 0 || s.CallersDenied != 3 {
		t.Errorf("%d of %d callers are denied, and %d lines unreadable", s.CallersDenied, s.Callers, s.Unreadable)
	}
	a, b := s.TopCallers[0], s.TopCallers[1]
	if !strings.HasPrefix(a.Caller, "sk_live_…") || !strings.HasPrefix(b.Caller, "sk_live_…") || a.Caller == b.Caller || len(a.Caller) != len("sk_live_…")+shownHash {
		t.Errorf("the callers are shown as %s and %s", a.Caller, b.Caller)
	}
	if a.Requests != 4 || a.Denied != 3 || a.ShareDenied != 0.75 || a.LongestWaitUS != 60_000_000 || a.LookedAt != 3 {
		t.Errorf("got %+v", a)
	}
	if !slices.Equal(a.Paths, []Value{{"/a", 3}}) || !slices.Equal(a.Status, []Value{{"200", 3}}) || len(b.UserAgents) != 0 {
		t.Errorf("got %+v and %+v", a, b)
	}
	if c := s.TopCallers[2]; c.Caller != "2001:db8::/64" || c.Denied != 1 {
		t.Errorf("got %+v", c)
	}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil || strings.ContainsRune(text.String(), 0x1b) || !strings.Contains(text.String(), "curl\ufffd[2J 100%") {
		t.Errorf("%v\n%s", err, &text)
	}
	_, s = replayed(t, Options{Rules: set, ShowKeys: true}, inputsOf(events)...)
	if s.TopCallers[0].Caller != "sk_live_aaaaaaaaaaaaaaaa" || s.TopKeysDenied[0].Key != "sk_live_aaaaaaaaaaaaaaaa" {
		t.Errorf("got %+v", s.TopCallers[0])
	}
}

var testSeed = maphash.MakeSeed()

// Under a limit the values of a denied event are read from its line.
func TestCallersOfALimit(t *testing.T) {
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		t.Fatal(err)
	}
	line := `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 404 5 "-" "curl/8"` + "\n"
	_, s := replayed(t, Options{Limit: limit, By: "ip", Reorder: DefaultReorder}, inputsOf(strings.Repeat(line, 100))...)
	want := Caller{Caller: "192.0.2.1", Requests: 100, Denied: 99, ShareDenied: 0.99, LongestWaitUS: 60_000_000, LookedAt: 4 + 12,
		UserAgents: []Value{{"curl/8", 16}}, Paths: []Value{{"/a", 16}}, Status: []Value{{"404", 16}}}
	if got := s.TopCallers; len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !slices.Equal(s.TopKeysDenied, []KeyCount{{"192.0.2.1", 99}}) {
		t.Errorf("got %+v", s.TopKeysDenied)
	}
}

// The paths of a caller that asks for another one each time are various, which is not to have none.
func TestValuesThatVaryAreToldFromNone(t *testing.T) {
	var events strings.Builder
	for i := range 190 { // the tally samples 27 of them
		fmt.Fprintf(&events, `{"t_us":1000000,"ip":"192.0.2.1","path":"/%d","status":200}`+"\n", i)
	}
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		t.Fatal(err)
	}
	_, s := replayed(t, Options{Limit: limit, By: "ip"}, inputsOf(events.String())...)
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if c := s.TopCallers[0]; !c.PathsVary || len(c.Paths) > 0 || c.AgentsVary || c.StatusVary || !regexp.MustCompile(`(?m)^192\.0\.2\.1 +- +various +200 100%$`).MatchString(text.String()) {
		t.Errorf("%+v\n%s", c, &text)
	}
}

// The key of an event is its API key, also to a limit by key. Its hash in a decision log is not.
func TestKeysOfALimitAreShortened(t *testing.T) {
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		t.Fatal(err)
	}
	event := `{"t_us":1000000,"key":"sk_live_aaaaaaaaaaaaaaaa"}` + "\n"
	decision := decisionLine(1, "5d0f8c91be2a4471", "r", true, inSample)
	for _, c := range []struct {
		o    Options
		text string
		want string
	}{
		{Options{}, event, "sk_live_…"},
		{Options{Hash: func(string) string { return "0123456789" }}, event, "sk_live_…012345"},
		{Options{ShowKeys: true}, event, "sk_live_aaaaaaaaaaaaaaaa"},
		{Options{}, decision, "5d0f8c91be2a4471"},
	} {
		c.o.Limit, c.o.By = limit, "key"
		_, s := replayed(t, c.o, inputsOf(c.text+c.text)...)
		if len(s.TopCallers) != 1 || s.TopCallers[0].Caller != c.want || s.TopKeysDenied[0].Key != c.want {
			t.Errorf("got %+v and %+v, want %s", s.TopCallers, s.TopKeysDenied, c.want)
		}
	}
}

// Callers without a key, an address or a user are counted by the key of a rule.
func TestCallersOfOtherAttributes(t *testing.T) {
	events := `{"t_us":1,"header:x-tenant":"acme"}` + "\n" + `{"t_us":1,"header:authorization":"Bearer aaaaaaaaaaaaaaaaa1"}` + "\n" + `{"t_us":1,"header:authorization":"Bearer aaaaaaaaaaaaaaaaa2"}` + "\n"
	set := ruleSet(t, "rules: [{id: one, by: [header:x-tenant], missing: skip, limit: 1/m}, {id: two, by: [header:authorization], missing: skip, limit: 1/m}]")
	_, s := replayed(t, Options{Rules: set}, inputsOf(events+events)...)
	if s.Callers != 3 || s.CallersDenied != 3 {
		t.Errorf("%d of %d callers are denied, want 3 of 3", s.CallersDenied, s.Callers)
	}
	for _, c := range s.TopCallers {
		if c.Caller != "acme" && c.Caller != "Bearer a…" {
			t.Errorf("a caller is shown as %s", c.Caller)
		}
	}
}

// An API key with the text of an address is not the caller at that address.
func TestTextsOfOtherAttributesAreOtherCallers(t *testing.T) {
	events := `{"t_us":1,"api_key":"192.0.2.1"}` + "\n" + `{"t_us":1,"ip":"192.0.2.1"}` + "\n"
	_, s := replayed(t, Options{Rules: ruleSet(t, "rules: [{id: one, by: [method], limit: 9/m}]")}, inputsOf(events)...)
	if s.Callers != 2 {
		t.Errorf("%d callers, want 2", s.Callers)
	}
}

// The key of an event without an API key is a credential, also in the keys of rules.
func TestAKeyThatStandsForAnAPIKeyIsShortened(t *testing.T) {
	events := strings.Repeat(`{"t_us":1000000,"key":"sk_live_aaaaaaaaaaaaaaaa","path":"/a"}`+"\n", 2)
	for _, by := range []string{"api_key", "api_key, path"} {
		set := ruleSet(t, "rules:\n  - {id: one, by: ["+by+"], limit: 1, window: 60}\n")
		_, s := replayed(t, Options{Rules: set}, inputsOf(events)...)
		if len(s.TopKeysDenied) != 1 || !strings.HasPrefix(s.TopKeysDenied[0].Key, "sk_live_…") {
			t.Errorf("by %s: the keys are %+v, want them shortened", by, s.TopKeysDenied)
		}
	}
}
