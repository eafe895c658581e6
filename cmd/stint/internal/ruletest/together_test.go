package ruletest_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
)

// Two nodes with different versions of one rule share one count. Raising or
// lowering the limit neither grants used allowance again nor removes unused
// allowance.
func TestVersionsThatDifferCountTogether(t *testing.T) {
	p, url := server(t)
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window_counter", "sliding_window_log", "quota"} {
		t.Run(algorithm, func(t *testing.T) {
			p.Must("FLUSHALL")
			low := startNode(t, "off", "--store", url, "--rules", limitFile(t, algorithm, 10))
			high := startNode(t, "off", "--store", url, "--rules", limitFile(t, algorithm, 30))
			used := 0
			for i := range 60 { // alternate between the nodes until both deny
				n := low
				if i%2 == 1 {
					n = high
				}
				d, err := n.check()
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					used++
				}
			}
			want := 30
			if algorithm == "token_bucket" { // a bucket that is capped at 10 discards the rest
				want = 10
			}
			if used < want || used > 30 {
				t.Errorf("admitted %d by limits of 10 and 30 that count together, want %d to 30", used, want)
			}
			for _, n := range []*node{low, high} {
				if d, err := n.check(); err != nil || d.Allowed {
					t.Errorf("after both were exhausted: %+v, %v", d, err)
				}
			}
			t.Logf("%d admitted by limits of 10 and 30 in turn", used)
		})
	}
}

// A limit is raised and lowered repeatedly while two nodes serve a caller that
// takes all it can get. In the end the caller has received the larger limit
// once.
func TestALimitThatChangesUnderLoadIsHandedOutOnce(t *testing.T) {
	p, url := server(t)
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window_counter", "sliding_window_log", "quota"} {
		t.Run(algorithm, func(t *testing.T) {
			p.Must("FLUSHALL")
			ann := newOperator(t, p.Addr())
			ann.publish(limitText(algorithm, 10))
			var admitted atomic.Int64
			var stop atomic.Bool
			var done sync.WaitGroup
			for range 2 {
				n := startNode(t, "off", "--store", url, "--rules", url)
				done.Go(func() {
					for !stop.Load() {
						d, err := n.check()
						if err != nil || d.Degraded {
							t.Errorf("%+v, %v", d, err)
							return
						}
						if d.Allowed {
							admitted.Add(1)
						}
					}
				})
			}
			pauses(20, 10*time.Millisecond, func(i int) { ann.publish(limitText(algorithm, 10+20*(i%2))) })
			least := int64(30)
			if algorithm == "token_bucket" { // lowering the limit caps the remaining tokens
				least = 10
			}
			redistest.Await(t, func() error { // the last change raised the limit
				if got := admitted.Load(); got < least {
					return fmt.Errorf("admitted %d, want %d", got, least)
				}
				return nil
			})
			stop.Store(true)
			done.Wait()
			t.Logf("%d admitted by a limit that was 10 and 30 in turn", admitted.Load())
			if got := admitted.Load(); got > 30 {
				t.Errorf("admitted %d, want at most 30", got)
			}
		})
	}
}

func limitFile(t *testing.T, algorithm string, limit int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, limitText(algorithm, limit))
	return path
}

// limitText returns one rule with one limit that takes a day or more to refill.
func limitText(algorithm string, limit int) string {
	window := "window: 24h"
	if algorithm == "quota" {
		window = "period: month"
	}
	return fmt.Sprintf("rules:\n  - {id: one, by: [api_key], limits: [{name: n, algorithm: %s, limit: %d, %s}]}\n", algorithm, limit, window)
}
