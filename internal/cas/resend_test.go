package cas_test

import (
	"context"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
)

// failing is a backend whose first write has no answer, and which cannot be reached when the
// write is sent again.
type failing struct {
	*casmem.Backend

	swaps int
}

var errUnreachable = &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "no server answers"}

func (f *failing) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	if f.swaps > 1 {
		return time.Time{}, errUnreachable
	}
	return f.Backend.Load(ctx, loads)
}

func (f *failing) Swap(ctx context.Context, _ []cas.Swap) (time.Time, error) {
	if f.swaps++; f.swaps > 1 {
		return time.Time{}, errUnreachable
	}
	return time.Time{}, cas.NoAnswer(ctx, "the server", nil)
}

// A write that may have been made fails with CodeTimeout, also if it could not be sent again.
func TestAnUnknownOutcomeIsNotAFailure(t *testing.T) {
	s := newStore(t, &failing{Backend: casmem.New(casmem.NewServer(nil))}, cas.Options{})
	_, err := s.Take(t.Context(), claim("k", "10/h", 1))
	if code, _ := kindOf(err); code != stint.CodeTimeout {
		t.Error(err)
	}
}

// knowing is a backend whose items have all writes of the horizon of their load alone.
type knowing struct {
	*casmem.Backend

	horizons []time.Duration
}

type known time.Duration

func (k known) Covers(horizon time.Duration) bool { return horizon <= time.Duration(k) }

func (k *knowing) Load(ctx context.Context, loads []cas.Load) (now time.Time, err error) {
	now, err = k.Backend.Load(ctx, loads)
	for i := range loads {
		k.horizons = append(k.horizons, loads[i].Horizon)
		loads[i].Item.Memo = known(loads[i].Horizon)
	}
	return now, err
}

// A remembered item that may lack what a limit still counts is read again.
func TestRememberedItemsCoverTheHorizon(t *testing.T) {
	b := &knowing{Backend: casmem.New(casmem.NewServer(nil))}
	s := newStore(t, b, cas.Options{})
	for range 5 {
		take(t, s, claim("k", "1000/m", 1))
	}
	if len(b.horizons) != 2 {
		t.Errorf("5 checks made %d loads", len(b.horizons))
	}
	take(t, s, claim("k", "1000/d", 1))
	if n := len(b.horizons); n != 3 || b.horizons[n-1] != 24*time.Hour {
		t.Errorf("loads with the horizons %v", b.horizons)
	}
}
