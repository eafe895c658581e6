package impact

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stintdev/stint/rule"
)

func TestASampleHearsOfManyAtOnce(t *testing.T) {
	s, set := New(nil), parsed(t, "rules: [{id: r, limit: 1/s}]")
	o := rule.Outcome{}
	o.Decision.Allowed = true
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 1000 {
				s.Add(set.Attributes(), rule.Map{"api_key": fmt.Sprint(g, " ", i%10)}, 1, &o)
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if _, err := s.Replay(t.Context(), nil, set); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if r, err := s.Replay(t.Context(), nil, set); err != nil || r.Requests != 4000 || r.Callers != 40 {
		t.Errorf("%+v, %v", r, err)
	}
}
