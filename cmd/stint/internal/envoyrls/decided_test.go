package envoyrls

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

const decidedLimits = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: path
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: free
    rate_limit: {unlimited: true}
`

// What is reported of a request is its answer, the limit that decides it, and all that applied.
func TestDecidedRequestsAreReported(t *testing.T) {
	for name, option := range map[string]func(*Options){
		"together":  func(*Options) {},
		"count all": func(o *Options) { o.CountAll = true },
		"shadow":    func(o *Options) { o.Shadow = true },
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			var domains []string
			s := serve(t, decidedLimits, option, func(o *Options) {
				o.Domains = func(names []string) { domains = names }
				o.Decided = func(_ context.Context, d *Decided) {
					text := fmt.Sprintf("%s %s %t %d/%d", d.Rule, d.Limit, d.Allowed, d.Decision.Remaining, d.Decision.Limit)
					for limit, denies := range d.Limits() {
						text += fmt.Sprintf(" %s=%t", limit, denies)
					}
					got = append(got, text)
					if !d.Decision.Allowed && d.Decision.RetryAfter <= 0 {
						t.Errorf("a denial without a time: %+v", d.Decision)
					}
				}
			})
			for range 3 {
				if _, err := s.ShouldRateLimit(t.Context(), request("shop", "user=u", "path=p")); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range []string{"free=f", "other=o"} {
				if _, err := s.ShouldRateLimit(t.Context(), request("shop", r)); err != nil {
					t.Fatal(err)
				}
			}
			third, none := "shop shop.user false 0/2 shop.user=false shop.path=true", "  true 0/0"
			if name == "shadow" {
				third = "shop shop.user true 0/2 shop.user=true shop.path=true"
			}
			want := []string{"shop shop.user true 1/2 shop.user=false shop.path=false", "shop shop.user true 0/2 shop.user=false shop.path=true", third, none, none}
			if !slices.Equal(got, want) || !slices.Equal(domains, []string{"shop"}) {
				t.Errorf("got\n%q\nwant\n%q, of %v", got, want, domains)
			}
		})
	}
}

// A limit that is decided without the store, and fails open, is reported as degraded.
func TestDegradedRequestsAreReported(t *testing.T) {
	var got []Decided
	s := serve(t, decidedLimits, func(o *Options) {
		o.Store = degraded{}
		o.Decided = func(_ context.Context, d *Decided) { got = append(got, *d) }
	})
	if _, err := s.ShouldRateLimit(t.Context(), request("shop", "user=u")); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !got[0].Degraded || !got[0].Allowed || got[0].Key == "" {
		t.Errorf("%+v", got)
	}
}

// degraded is a store that admits everything without a server.
type degraded struct{ stint.Store }

func (degraded) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{Allowed: true, Degraded: true, Remaining: 1, ResetAfter: time.Second}, nil
}
