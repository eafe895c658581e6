package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func mustNewSet(tb testing.TB, o SetOptions) *Set {
	tb.Helper()
	s, err := NewSet(o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestNamesHaveTheirOwnPlaces(t *testing.T) {
	s := mustNewSet(t, SetOptions{Each: Options{Limit: 1}, For: func(name string, each Options) Options {
		if name == "wide" {
			each.Limit = 2
		}
		return each
	}})
	for _, name := range []string{"a", "b", "wide", "wide"} {
		if _, err := s.Acquire(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "wide"} {
		_, err := s.Acquire(t.Context(), name)
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if u := s.Usage(); len(u) != 3 || u["wide"].InUse != 2 || u["a"].Full != 1 {
		t.Errorf("%+v", u)
	}
}

// A name in use is never dropped, and there are never more than MaxNames.
func TestNamesAreBounded(t *testing.T) {
	s := mustNewSet(t, SetOptions{Each: Options{Limit: 1}, MaxNames: 2})
	held, err := s.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := s.Do(t.Context(), fmt.Sprint(i), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Acquire(t.Context(), "held"); !errors.Is(err, ErrFull) {
		t.Errorf("a name in use was dropped: %v", err)
	}
	other, err := s.Acquire(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Do(t.Context(), "third", func(context.Context) error { return nil }); !errors.Is(err, ErrNames) {
		t.Errorf("a third name of two: %v", err)
	}
	held.Release()
	held.Release()
	if err := s.Do(t.Context(), "third", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	other.Release()
	if n := len(s.Usage()); n != 2 {
		t.Errorf("%d names", n)
	}
}

func TestWrongOptionsOfANameFailItAlone(t *testing.T) {
	s := mustNewSet(t, SetOptions{For: func(name string, each Options) Options {
		each.Limit = len(name)
		return each
	}})
	if err := s.Do(t.Context(), "", func(context.Context) error { return nil }); err == nil || !strings.Contains(err.Error(), "Limit") {
		t.Error(err)
	}
	if err := s.Do(t.Context(), "x", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

// Under contention for few names, a name never has two bulkheads.
func TestNameHasOneBulkhead(t *testing.T) {
	s := mustNewSet(t, SetOptions{Each: Options{Limit: 1}, MaxNames: 4})
	var held [8]sync.Mutex
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 500 {
				n := (i + j) % len(held)
				_ = s.Do(context.Background(), fmt.Sprint(n), func(context.Context) error {
					if !held[n].TryLock() {
						t.Error("two callers in one place")
						return nil
					}
					held[n].Unlock()
					return nil
				})
			}
		})
	}
	wg.Wait()
	for name, u := range s.Usage() {
		if u.InUse != 0 {
			t.Errorf("%s: %+v", name, u)
		}
	}
}
