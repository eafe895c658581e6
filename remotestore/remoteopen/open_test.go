package remoteopen_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/remotestore"
	"github.com/stintdev/stint/remotestore/remoteopen"
)

func TestWrongURLsAreRefused(t *testing.T) {
	for _, url := range []string{"", "memory", "redis://h", "stint://:hidden@", "stint://:hidden@h/x", "stint://:hidden@h?x=1"} {
		store, err := remoteopen.Open(t.Context(), url, remoteopen.Options{})
		var e *stint.Error
		if store != nil || !errors.As(err, &e) || e.Code != stint.CodeInvalid || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestOpenClosesTheClient(t *testing.T) {
	store, err := remoteopen.Open(t.Context(), "stint://:hidden@127.0.0.1:1", remoteopen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base, ok := store.Base().(*remotestore.Store)
	if !ok {
		t.Fatalf("the base is a %T", store.Base())
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := store.Ping(t.Context()); err == nil || base.Up() {
		t.Error("the client is open after Close")
	}
}

func TestWaitReportsThatNobodyListens(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := remoteopen.Open(ctx, "stint://:hidden@127.0.0.1:1?timeout=50ms", remoteopen.Options{Wait: true})
	var e *stint.Error
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}
