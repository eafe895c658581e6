package server

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

// BenchmarkCheck measures a request behind net/http: reading it, the rules, the store, the
// metrics, and writing the decision.
func BenchmarkCheck(b *testing.B) {
	for name, c := range map[string]struct{ path, body string }{
		"check": {"/v1/check", `{"attributes":{"api_key":"k","method":"GET","path":"/v1/orders","ip":"203.0.113.1"}}`},
		"take":  {"/v1/take", `{"key":"user:42","limit":{"limit":100,"window":"1m"}}`},
		"auth":  {"/v1/auth/v1/orders", ""},
	} {
		b.Run(name, func(b *testing.B) {
			handler := benchHandler(b)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
				r.Header.Set("X-Api-Key", "k")
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}

// BenchmarkBatch measures one item of a batch of 100, behind net/http.
func BenchmarkBatch(b *testing.B) {
	for name, item := range map[string]string{
		"check": `{"attributes":{"api_key":"user:%d","method":"GET","path":"/v1/orders","ip":"203.0.113.1"}}`,
		"take":  `{"key":"user:%d","limit":{"limit":100,"window":"1m"}}`,
	} {
		b.Run(name, func(b *testing.B) {
			handler, body := benchHandler(b), hundredOf(item)
			reader := bytes.NewReader(nil)
			r := httptest.NewRequest(http.MethodPost, "/v1/batch", reader)
			w := &discarded{header: http.Header{}}
			b.ReportAllocs()
			items := 0
			for b.Loop() {
				reader.Reset(body)
				handler.ServeHTTP(w, r)
				items += 100
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(items), "ns/item")
		})
	}
}

func hundredOf(item string) []byte {
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprintf(item, i)
	}
	return []byte(batchOf(items...))
}

func benchHandler(tb testing.TB) http.Handler {
	tb.Helper()
	s, err := New(Config{Store: stint.NewMemory(stint.MemoryOptions{})})
	if err != nil {
		tb.Fatal(err)
	}
	return s.httpHandler()
}

// discarded is a ResponseWriter that keeps the status alone.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }

// TestBatchAllocatesLittle checks that an item of a batch costs less than one allocation.
func TestBatchAllocatesLittle(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector drops what is pooled")
	}
	for _, item := range []string{`{"attributes":{"api_key":"user:%d","path":"/v1/orders","ip":"203.0.113.1"}}`, `{"key":"user:%d","limit":"100/m"}`} {
		handler, body := benchHandler(t), hundredOf(item)
		w := &discarded{header: http.Header{}}
		allocs := testing.AllocsPerRun(100, func() {
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/batch", bytes.NewReader(body)))
		})
		if allocs > 50 || w.status != http.StatusOK {
			t.Errorf("%s: %v allocations for 100 items, status %d", item, allocs, w.status)
		}
	}
}
