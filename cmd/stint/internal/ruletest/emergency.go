package ruletest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
)

// Emergency tests that a source carries the switch of the emergency. open returns sources of
// one store, which has no record yet.
func Emergency(t *testing.T, open func(t *testing.T) emergency.Source) {
	t.Run("carriesTheEmergency", func(t *testing.T) {
		a, b := open(t), open(t)
		wantRecord(t, "nobody has switched", b, "", 0)
		if _, err := a.SwitchEmergency(t.Context(), record("early"), time.Minute, "missing"); !errors.Is(err, emergency.ErrChanged) {
			t.Error("nothing is there to replace:", err)
		}
		wantRecord(t, "refused", b, "", 0)
		before := time.Now()
		stored, err := a.SwitchEmergency(t.Context(), record("first"), time.Minute, emergency.NoRecord)
		if d := stored.Until.Sub(stored.Since); err != nil || d != time.Minute || stored.Since.Sub(before).Abs() > time.Minute || stored.Revision != "first" {
			t.Errorf("%+v, %v", stored, err)
		}
		if _, err := b.SwitchEmergency(t.Context(), record("other"), time.Hour, emergency.NoRecord); !errors.Is(err, emergency.ErrChanged) {
			t.Error("another operator has switched one on:", err)
		}
		if r := wantRecord(t, "the other node", b, "first", time.Minute); !r.Until.Equal(stored.Until) || !r.Since.Equal(stored.Since) ||
			r.Limit != "10/s" || r.By != "ip" || !r.On || r.Reason != strings.Repeat("é \" ' \\ %s\n", 100) || r.Author != "vera" {
			t.Errorf("%+v, want the times of %+v", r, stored)
		}
		if _, err := b.SwitchEmergency(t.Context(), record("second"), time.Hour, "first"); err != nil {
			t.Error(err)
		}
		if _, err := a.SwitchEmergency(t.Context(), record("third"), time.Hour, "first"); !errors.Is(err, emergency.ErrChanged) {
			t.Error("another operator was faster:", err)
		}
		wantRecord(t, "the first of two", a, "second", time.Hour)
		if _, err := a.SwitchEmergency(t.Context(), emergency.Record{Revision: "off"}, 24*time.Hour, ""); err != nil {
			t.Error(err)
		}
		if r := wantRecord(t, "off", b, "off", 24*time.Hour); r.On {
			t.Errorf("%+v", r)
		}
	})
	t.Run("endsTheEmergency", func(t *testing.T) {
		s := open(t)
		if _, err := s.SwitchEmergency(t.Context(), record("short"), time.Second, ""); err != nil {
			t.Fatal(err)
		}
		for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			r, left, err := s.Emergency(t.Context())
			if err != nil || left > time.Second || time.Since(begun) > 10*time.Second {
				t.Fatalf("%+v, %v left, %v", r, left, err)
			}
			if r.Revision == "" {
				break
			}
		}
		if _, err := s.SwitchEmergency(t.Context(), record("late"), time.Minute, "short"); !errors.Is(err, emergency.ErrChanged) {
			t.Error("it has ended:", err)
		}
		if _, err := s.SwitchEmergency(t.Context(), record("next"), time.Minute, emergency.NoRecord); err != nil {
			t.Error("it has ended:", err)
		}
	})
}

func record(revision string) emergency.Record {
	return emergency.Record{Revision: revision, On: true, Limit: "10/s", By: "ip", Author: "vera", Reason: strings.Repeat("é \" ' \\ %s\n", 100)}
}

func wantRecord(t *testing.T, when string, s emergency.Source, revision string, left time.Duration) emergency.Record {
	t.Helper()
	r, remaining, err := s.Emergency(t.Context())
	if err != nil || r.Revision != revision || remaining > left || remaining < left-20*time.Second {
		t.Errorf("%s: %q with %v left, %v; want %q with %v", when, r.Revision, remaining, err, revision, left)
	}
	return r
}
