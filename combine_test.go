package stint

import (
	"testing"
	"time"
)

func TestBindingClaimOfAGroup(t *testing.T) {
	yes := func(remaining int64) Decision { return Decision{Allowed: true, Remaining: remaining} }
	no := func(retry time.Duration) Decision { return Decision{RetryAfter: retry} }
	for name, c := range map[string]struct {
		any       []uint8 // the set of each claim
		decisions []Decision
		index     int
		allowed   bool
	}{
		"no claims are admitted":              {nil, nil, -1, true},
		"least remaining":                     {[]uint8{0, 0, 0}, []Decision{yes(5), yes(2), yes(3)}, 1, true},
		"of equal remaining the first":        {[]uint8{0, 0}, []Decision{yes(2), yes(2)}, 0, true},
		"a denial decides":                    {[]uint8{0, 0}, []Decision{yes(0), no(1)}, 1, false},
		"greatest retry":                      {[]uint8{0, 0, 0}, []Decision{no(3), no(9), yes(0)}, 1, false},
		"never is greater than all":           {[]uint8{0, 0}, []Decision{no(time.Hour), no(Never)}, 1, false},
		"of equal retries the first":          {[]uint8{0, 0}, []Decision{no(3), no(3)}, 0, false},
		"any: one admits":                     {[]uint8{1, 1}, []Decision{no(3), yes(0)}, 1, true},
		"any: most remaining of those":        {[]uint8{1, 1, 1}, []Decision{yes(1), yes(4), no(2)}, 1, true},
		"any: denied, least retry":            {[]uint8{1, 1}, []Decision{no(3), no(2)}, 1, false},
		"any beside all: the set is denied":   {[]uint8{0, 1, 1}, []Decision{yes(0), no(5), no(3)}, 2, false},
		"any beside all: the other is denied": {[]uint8{1, 0, 1}, []Decision{no(9), no(4), yes(1)}, 1, false},
		"two sets, the fuller speaks for one": {[]uint8{1, 2, 1, 2}, []Decision{yes(1), yes(7), yes(3), no(1)}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			claims := make([]Claim, len(c.any))
			for i := range claims {
				claims[i].AnyOf = c.any[i]
			}
			index, d := Combine(claims, c.decisions)
			if index != c.index || d.Allowed != c.allowed {
				t.Errorf("Combine = claim %d, allowed %v; want claim %d, %v", index, d.Allowed, c.index, c.allowed)
			}
		})
	}
}

func TestGroupDelayIsTheGreatestCharged(t *testing.T) {
	decisions := []Decision{{Allowed: true, Remaining: 1}, {Allowed: true, Remaining: 9, Delay: 5}, {Allowed: true, Remaining: 9, Delay: 2}}
	if index, d := Combine(make([]Claim, 3), decisions); index != 0 || d.Delay != 5 {
		t.Errorf("Combine = claim %d, delay %v; want claim 0 with a delay of 5ns", index, d.Delay)
	}
}
