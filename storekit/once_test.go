package storekit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A value remembers a bounded number of groups and of bytes. Beyond that, new ids of its
// key are refused, and repeats are not.
func TestAValueRemembersFewGroups(t *testing.T) {
	limit := stint.MustParseLimit("1000000/h")
	for name, claims := range map[string]int{"narrow": 1, "wide": 100} {
		t.Run(name, func(t *testing.T) {
			values, now, kept := map[string][]byte{}, time.Unix(1_000_000, 0), 0
			take := func(i int) (repeated bool, err error) {
				g := stint.Group{Once: &stint.Once{ID: fmt.Sprint(i)}}
				for j := range claims {
					g.Claims = append(g.Claims, stint.Claim{Key: fmt.Sprint("k", j), Limit: limit, Cost: 1})
				}
				out := make([]stint.Decision, claims)
				changes, err := Decide([]stint.Group{g}, values, now, out)
				for _, c := range changes {
					values[c.Key] = c.Value
				}
				if errs, _ := PartErrors(err, 1); errs != nil {
					err = errs[0]
				}
				return out[0].Repeated, err
			}
			for i := range 300 {
				_, err := take(i)
				full, refused := errors.AsType[*stint.Error](err)
				switch {
				case err == nil:
					kept++
				case !refused || full.Kind != stint.KindOnceBudget || full.RetryAfter != stint.RememberFor:
					t.Fatal(err)
				}
			}
			if n := len(values["k0"]); kept < 5 || kept > maxRemembered || n > 2*maxRememberedBytes {
				t.Errorf("%d groups are remembered, in %d bytes", kept, n)
			}
			if repeated, err := take(0); err != nil || !repeated {
				t.Errorf("a repeat: %v, %v", repeated, err)
			}
			now = now.Add(stint.RememberFor)
			if repeated, err := take(300); err != nil || repeated {
				t.Errorf("after a minute: %v, %v", repeated, err)
			}
			if n := len(values["k0"]); n > maxRememberedBytes/4 {
				t.Errorf("after a minute the value still has %d bytes", n)
			}
		})
	}
}
