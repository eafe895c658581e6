package retry

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
)

// BenchmarkDo measures a call that succeeds at once.
func BenchmarkDo(b *testing.B) {
	p := mustNew(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Do(context.Background(), func(context.Context) error { return nil })
	}
}

func BenchmarkTransport(b *testing.B) {
	resp, req := answer(200), request(b.Context(), b, "GET", nil)
	tr := &Transport{Policy: mustNew(b, Options{}), Base: trip(func(*http.Request) (*http.Response, error) { return resp, nil })}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = tr.RoundTrip(req)
	}
}

func BenchmarkWait(b *testing.B) {
	w := Backoff{Base: 1e8, Cap: 1e10, Jitter: Decorrelated}
	for b.Loop() {
		w.Wait(3, 1e9, rand.Int64N)
	}
}

func BenchmarkRateLimit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		parseRateLimit(`"orders";r=0;t=36`)
	}
}
