package deadline

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func BenchmarkLeft(b *testing.B) {
	h := http.Header{DefaultHeader: {"850"}}
	b.ReportAllocs()
	for b.Loop() {
		Left(h, "")
	}
}

func BenchmarkMiddleware(b *testing.B) {
	h := Middleware{}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	r.Header.Set(DefaultHeader, "60000")
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

func BenchmarkTransport(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	resp := &http.Response{StatusCode: 200, Body: http.NoBody}
	tr := &Transport{Base: trip(func(*http.Request) (*http.Response, error) { return resp, nil })}
	req := httptest.NewRequest("GET", "http://example.com/", nil).WithContext(ctx)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = tr.RoundTrip(req)
	}
}
