package simulate

import (
	"reflect"
	"testing"
)

// The bars: with a budget the failing server gets at most a tenth more attempts than
// without retries; after its recovery no second has more than one and a half times the
// mean. The scenes without a budget show that the incident is severe. Run with -v for the
// figures.
func TestIncident(t *testing.T) {
	const least, most = 1.5, 1.1
	sent := map[string]int{}
	for _, s := range Scenes() {
		if testing.Short() && !s.Behavior.Budget {
			continue
		}
		for n, e := range Advices() {
			if testing.Short() && n != 1 {
				continue
			}
			t.Run(s.Name+", "+e.Name, func(t *testing.T) {
				const wave = 1.5
				i := incident(t, s.With(e))
				sent[s.Name+e.Name] = i.Attempts
				peak, mean := i.Wave()
				times, high := i.Amplification(), float64(peak)/mean
				t.Logf("seed %d: %.2f attempts a request, then %.2f times the mean (%d of %.0f a second), %.1f %% of all answered",
					Seed, times, high, peak, mean, 100*float64(i.Answered)/float64(i.All))
				if s.Behavior.Budget && (times > most || high > wave) {
					t.Errorf("want at most %v attempts and %v times the mean", most, wave)
				}
				if s.Behavior.Breaker && times > 0.5 {
					t.Error("want at most half an attempt: a breaker keeps most of them back")
				}
				if !s.Behavior.Budget && e.RetryAfter == Fixed && (times < least || high < wave) {
					t.Errorf("want at least %v attempts and %v times the mean, or the budget proves nothing", least, wave)
				}
			})
		}
		ignored, heeded := sent[s.Name+Advices()[0].Name], sent[s.Name+Advices()[1].Name]
		if !s.Behavior.Budget && ignored < 3*heeded {
			t.Errorf("%s: %d attempts while Retry-After is ignored, %d while it is heeded", s.Name, ignored, heeded)
		}
	}
}

// If the server names one moment to all clients, the wave is at its highest, and its
// height is random.
func TestWaveWithOtherSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	m := Scenes()[2].With(Advices()[2])
	for seed := uint64(Seed + 1); seed <= 12; seed++ {
		i, err := Play(m, seed)
		if err != nil {
			t.Fatal(err)
		}
		peak, mean := i.Wave()
		times, high := i.Amplification(), float64(peak)/mean
		t.Logf("seed %d: %.2f attempts a request, then %.2f times the mean", seed, times, high)
		if times > 1.1 || high > 1.5 {
			t.Error("want at most 1.1 and 1.5")
		}
	}
}

func incident(t *testing.T, m Behavior) *Incident {
	t.Helper()
	i, err := Play(m, Seed)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestSameSeedSameIncident(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	m := Scenes()[3].With(Advices()[1])
	if a, b := incident(t, m), incident(t, m); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestRetryAfterHasNames(t *testing.T) {
	if got := Fixed.String() + " " + Moment.String() + " " + RetryAfter(2).String(); got != "fixed moment unknown" {
		t.Error(got)
	}
}
