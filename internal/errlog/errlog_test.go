package errlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// captured returns a Log with a clock that the caller sets, and its text.
func captured(now *time.Time) (*Log, *strings.Builder) {
	var text strings.Builder
	return New(slog.New(slog.NewTextHandler(&text, nil)), "not checked", func() time.Time { return *now }), &text
}

func TestOneLineInTenSecondsForEachKind(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	log, text := captured(&now)
	down := &stint.Error{Code: stint.CodeUnavailable, Problem: "no route"}
	for _, step := range []struct {
		after time.Duration
		err   error
		want  string // "" means no line
	}{
		{0, down, "code=unavailable suppressed=0"},
		{0, down, ""},
		{0, fmt.Errorf("odd"), "code=internal suppressed=0"},
		{Every - 1, down, ""},
		{1, down, "code=unavailable suppressed=2"},
		{-time.Hour, down, "code=unavailable suppressed=0"}, // the clock was set back
		{time.Second, stint.Code(200), "suppressed=0"},
	} {
		now = now.Add(step.after)
		text.Reset()
		log.Note(t.Context(), step.err)
		if got := text.String(); !strings.Contains(got, step.want) || (got == "") != (step.want == "") {
			t.Errorf("%v after %v: %q; want %q", step.err, step.after, got, step.want)
		}
	}
}

func TestFaultsOfClientsAreNotLogged(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	log, text := captured(&now)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	log.Note(t.Context(), &stint.Error{Code: stint.CodeInvalid})
	log.Note(t.Context(), &stint.Error{Code: stint.CodeCanceled})
	log.Note(t.Context(), nil)
	log.Note(ended, errors.New("no store"))
	New(nil, "", time.Now).Note(t.Context(), errors.New("no store"))
	if text.Len() > 0 {
		t.Errorf("logged %s", text)
	}
}

func TestManyGoroutinesMakeOneLine(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	log, text := captured(&now)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				log.Note(t.Context(), stint.CodeUnavailable)
			}
		})
	}
	all.Wait()
	if lines := strings.Count(text.String(), "\n"); lines != 1 {
		t.Errorf("%d lines", lines)
	}
}
