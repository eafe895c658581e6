package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// wrongClaims checks that an invalid claim gets an error with CodeInvalid, and
// charges nothing.
func wrongClaims(tb rapid.TB, b *bench) {
	limit := limitsOf(10)[0]
	key := b.newScope()
	for name, c := range map[string]stint.Claim{
		"no key":               {Limit: limit, Cost: 1},
		"no limit":             {Key: key, Cost: 1},
		"cost over MaxCost":    {Key: key, Limit: limit, Cost: stint.MaxCost + 1},
		"greatest cost":        {Key: key, Limit: limit, Cost: math.MaxInt64},
		"cost below the least": {Key: key, Limit: limit, Cost: -stint.MaxCost - 1},
		"negative extra":       {Key: key, Limit: limit, Cost: 1, Extra: -1},
	} {
		_, err := b.store.Take(context.Background(), c)
		wantInvalid(tb, name, err)
		err = b.store.TakeGroups(context.Background(), []stint.Group{{Claims: []stint.Claim{c}}}, make([]stint.Decision, 1))
		wantInvalid(tb, name+" in a group", err)
	}
	c := stint.Claim{Key: key, Limit: limit, Cost: 1}
	err := b.store.TakeGroups(context.Background(), []stint.Group{{Claims: []stint.Claim{c, c}}}, make([]stint.Decision, 2))
	wantInvalid(tb, "the same state twice in one group", err)
	err = b.store.TakeGroups(context.Background(), []stint.Group{{Claims: []stint.Claim{c}}}, nil)
	wantInvalid(tb, "no room for the decisions", err)
	if d := b.scripted(tb).peek(c); d.Remaining != 10 {
		tb.Errorf("wrong claims were charged: %s", decisionText(d))
	}
}

func wantInvalid(tb rapid.TB, name string, err error) {
	tb.Helper()
	var wrong *stint.Error
	if !errors.As(err, &wrong) || wrong.Code != stint.CodeInvalid {
		tb.Errorf("%s: error is %v, want a *stint.Error with CodeInvalid", name, err)
	}
}

// oneWrongGroup checks that an invalid group in a call leaves the decisions of
// the other groups valid.
func oneWrongGroup(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	c := stint.Claim{Key: h.scope, Limit: limitsOf(10)[0], Cost: 3}
	good := stint.Group{Claims: []stint.Claim{c}}
	bad := stint.Group{Claims: []stint.Claim{c, {Key: h.scope}}}
	out := make([]stint.Decision, 4)
	err := b.store.TakeGroups(context.Background(), []stint.Group{good, bad, good}, out)
	var groups *stint.GroupsError
	if !errors.As(err, &groups) || len(groups.Errs) != 3 || groups.Errs[0] != nil || groups.Errs[2] != nil {
		tb.Fatalf("error is %v, want a *stint.GroupsError that names the second group alone", err)
	}
	wantInvalid(tb, "the second group", groups.Errs[1])
	if !out[0].Allowed || !out[3].Allowed || out[0].Remaining != 7 || out[3].Remaining != 4 {
		tb.Errorf("groups beside a wrong one: %s and %s", decisionText(out[0]), decisionText(out[3]))
	}
	if d := h.peek(c); d.Remaining != 4 {
		tb.Errorf("after two takes of 3: %s", decisionText(d))
	}
}

// wrongShadow checks that an invalid shadow leaves its group and the other
// shadows charged, and that the shadows of an invalid group are decided and not
// charged.
func wrongShadow(tb rapid.TB, b *bench) {
	h := b.scripted(tb)
	claim := func(name string) stint.Claim {
		return stint.Claim{Key: h.scope + name, Limit: limitsOf(10)[0], Cost: 3}
	}
	bad := []stint.Claim{claim("bad"), {Key: h.scope}}
	groups := []stint.Group{
		{Claims: []stint.Claim{claim("a")}, Shadows: [][]stint.Claim{bad, {claim("b")}}},
		{Claims: bad, Shadows: [][]stint.Claim{{claim("c")}}},
		{Shadows: [][]stint.Claim{bad, {claim("d")}}},
	}
	claims, parts := stint.Sizes(groups)
	out := make([]stint.Decision, claims)
	errs, whole := storekit.PartErrors(b.store.TakeGroups(context.Background(), groups, out), parts)
	if whole != nil || len(errs) != parts {
		tb.Fatalf("errors are %v (%v), want one for each of %d parts", errs, whole, parts)
	}
	for i, err := range errs {
		if i == 1 || i == 3 || i == 6 {
			wantInvalid(tb, fmt.Sprint("part ", i), err)
		} else if err != nil {
			tb.Errorf("part %d: %v", i, err)
		}
	}
	for at, remaining := range map[int]int64{0: 7, 3: 7, 6: 10, 9: 7} {
		if d := out[at]; !d.Allowed || d.Remaining != remaining {
			tb.Errorf("claim %d: %s, want %d remaining", at, decisionText(d), remaining)
		}
	}
	for name, remaining := range map[string]int64{"a": 7, "b": 7, "c": 10, "d": 7, "bad": 10} {
		if d := h.peek(claim(name)); d.Remaining != remaining {
			tb.Errorf("%s: %s, want %d remaining", name, decisionText(d), remaining)
		}
	}
}
