package quorumstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// Clear deletes all keys of a prefix, and no others.
func TestClearDeletesAPrefix(t *testing.T) {
	p, s, m := started(t)
	p.Must("SET", "other", "program")
	p.Must("SET", "stint:longer:=k", "of another prefix")
	for i := range 3000 {
		calls(t, s, m, operation{verb: verbPrepare, key: fmt.Sprintf("=k%d", i), ballot: ballot{m.birth + 1e9, 1}})
	}
	if err := s.clear(inTime(t)); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, func() error {
		if got := strings.TrimSpace(p.Must("DBSIZE")); got != "2" {
			return fmt.Errorf("%s keys are left", got)
		}
		return nil
	})
	readers := dialTest(t, p.Addr(), func(o *Options) { o.Username, o.Password = "readers", "readers" })
	p.Must("ACL", "SETUSER", "readers", "on", ">readers", "~*", "+@all", "-set")
	wantError(t, readers.clear(inTime(t)), stint.CodeUnavailable, "noperm", "+set")
}

// After Clear nothing that still runs or is called later, such as a heartbeat or a check, marks the
// servers again.
func TestNothingIsLeftAfterClear(t *testing.T) {
	var servers []*redistest.Process
	o := Options{Heartbeat: time.Millisecond}
	for range 3 {
		p := redistest.Server(t)
		servers, o.Servers = append(servers, p), append(o.Servers, p.Addr())
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	take := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		_, err := s.Take(ctx, testClaim(t, "k", "5/h"))
		return err
	}
	redistest.Await(t, take)
	for range 2 {
		if err := s.Clear(inTime(t)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if take() == nil {
			t.Error("a check is decided after Clear")
		}
	}
	for _, p := range servers {
		redistest.Await(t, func() error {
			if left := strings.TrimSpace(p.Must("KEYS", "*")); left != "" {
				return fmt.Errorf("%s is left", left)
			}
			return nil
		})
	}
}

// Clear waits for a server that hangs no longer than a call does, whatever time its caller has.
func TestClearDoesNotWaitForAServerThatHangs(t *testing.T) {
	p := redistest.Server(t)
	s := dialTest(t, p.Addr(), func(o *Options) { o.Timeout = 200 * time.Millisecond })
	marked(t, s, 1)
	p.Freeze()
	t.Cleanup(p.Thaw)
	ctx := inTime(t)
	if err := s.clear(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("%v, and the time of the caller has ended: %v", err, ctx.Err())
	}
}
