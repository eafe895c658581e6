package redisstore

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/shorthash"
)

func keyOf(e *encoding, identity string) string {
	return string(e.appendKey(nil, identity, "", "0123_-x"))
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, c := range []struct{ fact, identity, want string }{
		{"an identity of 13 characters makes a key of 28", "user:12345678", "stint:{user:12345678}0123_-x"},
		{"other parts follow behind colons", "acme\x00user:1\x00/v1", "stint:{acme}:user%3A1:/v10123_-x"},
		{"braces and the escape itself are escaped", "a}{b%7D", "stint:{a%7D%7Bb%257D}0123_-x"},
		{"so are newlines, spaces and invalid UTF-8", "a\r\n b\xff\u0085", "stint:{a%0D%0A%20b%FF%C2%85}0123_-x"},
		{"text in any script stands as it is", "ключ", "stint:{ключ}0123_-x"},
		{"an empty first part still has a slot of its own", "\x00b", "stint:{%-}:b0123_-x"},
		{"64 bytes are not long", long[1:], "stint:{" + long[1:] + "}0123_-x"},
		{"65 bytes are", long, "stint:{%~lTfF_fEgSC99WNJentWD9SwC}0123_-x"},
	} {
		if got := keyOf(encodingOf(t, Options{}), c.identity); got != c.want {
			t.Errorf("%s: %q, want %q", c.fact, got, c.want)
		}
	}
	if got := keyOf(encodingOf(t, Options{}), "user:12345678"); len(got) != 28 {
		t.Errorf("%q has %d bytes", got, len(got))
	}
}

// keyForm matches every key: it has no control character, no space, no other brace than
// its two, and only valid UTF-8.
var keyForm = regexp.MustCompile(`^app:\{[^\x00-\x20\x7f-\x{9f}\x{fffd}{}]+\}[^\x00-\x20\x7f-\x{9f}\x{fffd}{}]*[A-Za-z0-9_-]{7}$`)

func TestNoTwoIdentitiesShareAKey(t *testing.T) {
	e := encodingOf(t, Options{Prefix: "app"})
	r := newRand(t)
	seen := map[string]string{}
	for range 40_000 {
		identity := drawIdentity(r)
		key := keyOf(e, identity)
		if !keyForm.MatchString(key) || len(key) > len("app:{}")+5*(maxPart+1)+7 {
			t.Fatalf("identity %q has the key %q", identity, key)
		}
		if other, known := seen[key]; known && other != identity {
			t.Fatalf("identities %q and %q share the key %q", identity, other, key)
		}
		seen[key] = identity
	}
}

// callersKeyForm matches the keys of callers' limits and no other keys.
var callersKeyForm = regexp.MustCompile(`^app:\{[^{}]+\}~(|:[^{}]*)[A-Za-z0-9_-]{22}$`)

// Whatever names and identities a caller chooses, no other limit has the key of its limit,
// and no two identities share a caller's key.
func TestCallersKeysAreUnique(t *testing.T) {
	e := encodingOf(t, Options{Prefix: "app"})
	r := newRand(t)
	long := shorthash.Long("", "a", "b")
	identities, owner := map[string]string{}, map[string]bool{}
	for range 40_000 {
		identity, fromCaller := drawIdentity(r), r.IntN(2) == 0
		mark, hash := "", "0123_-x"
		if fromCaller {
			mark, hash = callerMark, long
		} else if r.IntN(2) == 0 { // a rule's identity that looks like the end of a caller's key
			identity += []string{"~" + long[:15], "~:" + long[:15], long[:15], "}~" + long[:15]}[r.IntN(4)]
		}
		key := string(e.appendKey(nil, identity, mark, hash))
		if got := callersKeyForm.MatchString(key); got != fromCaller {
			t.Fatalf("identity %q (from a caller: %v) has the key %q", identity, fromCaller, key)
		}
		other, known := identities[key]
		if known && (other != identity || owner[key] != fromCaller) {
			t.Fatalf("identities %q (%v) and %q (%v) share the key %q", identity, fromCaller, other, owner[key], key)
		}
		identities[key], owner[key] = identity, fromCaller
	}
}

// The limit determines the mark, whatever its rule and name are.
func TestCallersLimitsAreMarkedInTheirKeys(t *testing.T) {
	e := encodingOf(t, Options{Prefix: "app"})
	r := newRand(t)
	for range 2000 {
		spec := stint.PerMinute(5)
		spec.Rule = []string{"", "login", "callers"}[r.IntN(3)]
		spec.Name = []string{"", "x", "0123_-x", "ZkuURLG"}[r.IntN(4)]
		spec.Namespace = []string{"", "acme"}[r.IntN(2)]
		own := e.limits.of(limitOf(t, spec))
		spec.FromCaller = true
		brought := e.limits.of(limitOf(t, spec))
		identity := drawIdentity(r)
		ownKey := string(e.appendKey(nil, identity, own.mark, own.hash))
		broughtKey := string(e.appendKey(nil, identity, brought.mark, brought.hash))
		if callersKeyForm.MatchString(ownKey) || !callersKeyForm.MatchString(broughtKey) {
			t.Fatalf("%+v: the keys are %q, and from a caller %q", spec, ownKey, broughtKey)
		}
		c := stint.Claim{Key: identity}
		if slotOf(broughtKey) != e.slotOf(&c) {
			t.Fatalf("%q is not in the slot of its identity", broughtKey)
		}
	}
}

// drawIdentity draws up to five parts from confusing texts: separators, escapes, hashes
// and parts of them.
func drawIdentity(r *rand.Rand) string {
	pieces := []string{"a", "b", "%", "%25", "%7D", "}", "{", ":", "\x00", "%~", "%-", "-", "~", "\n", "\xff", "\xc3", "\xa9", "é", " ",
		"0123_-x", "lTfF_fEgSC99WNJentWD9SwC", strings.Repeat("%", 22), strings.Repeat("x", 60), "\u0080", "stint:{a}"}
	var s strings.Builder
	for range 1 + r.IntN(5) {
		s.WriteString(pieces[r.IntN(len(pieces))])
	}
	return s.String()
}

func TestLongIdentityHasAShortKey(t *testing.T) {
	e := encodingOf(t, Options{})
	for _, identity := range []string{strings.Repeat("\x01", 1<<20), strings.Repeat("{", 1<<20), strings.Repeat("é", 1<<19), "a\x00" + strings.Repeat("\xff", 1<<20)} {
		if key := keyOf(e, identity); len(key) > 50 {
			t.Errorf("%.5q…: a key of %d bytes", identity, len(key))
		}
	}
}

// Only the first part of an identity determines the slot of its states, and the server
// computes the same slot.
func TestSlotDependsOnTheFirstPart(t *testing.T) {
	e := encodingOf(t, Options{Prefix: "app"})
	r := newRand(t)
	for range 10_000 {
		identity := drawIdentity(r)
		c := stint.Claim{Key: identity}
		if got, want := e.slotOf(&c), slotOf(keyOf(e, identity)); got != want {
			t.Fatalf("%q: slot %d, and of its key %d", identity, got, want)
		}
		other := stint.Claim{Key: stint.JoinKey(identity, drawIdentity(r))}
		if e.slotOf(&c) != e.slotOf(&other) {
			t.Fatalf("%q and %q have different slots", identity, other.Key)
		}
	}
}

func TestPrefixesThatWouldBreakKeysAreRefused(t *testing.T) {
	for _, prefix := range []string{"a{b", "a}", "a b", "a\n", "\x00", "\xff", strings.Repeat("x", 65)} {
		if _, err := newEncoding(&Options{Prefix: prefix}); err == nil {
			t.Errorf("prefix %q is accepted", prefix)
		}
	}
}

func TestKeysOfPlainIdentitiesAllocateNothing(t *testing.T) {
	e := encodingOf(t, Options{})
	room := make([]byte, 0, 64)
	c := stint.Claim{Key: "user:12345678"}
	if n := testing.AllocsPerRun(100, func() { room = e.appendKey(room[:0], c.Key, "", "0123_-x"); e.slotOf(&c) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
