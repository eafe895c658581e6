package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
)

// Memory that is used again has nothing of the exchange before.
func TestReleasedMemoryIsEmpty(t *testing.T) {
	upstream := serve(t, http1, echo)
	g := newGateway(t, toServers(urlOf(t, upstream.URL)))
	var used *memory
	send := g.proxy.Transport
	g.proxy.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		used = exchangeOf(r).memory
		return send.RoundTrip(r)
	})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/", http.NoBody)
	r.Header.Set("Authorization", "secret")
	g.ServeHTTP(w, r)
	if w.Code != http.StatusOK || used == nil || used.kept {
		t.Fatalf("status %d, memory %v", w.Code, used)
	}
	if n := len(used.header); n > 0 {
		t.Errorf("the header has %d fields", n)
	}
	all := reflect.ValueOf(used).Elem()
	for i := range all.NumField() {
		switch name := all.Type().Field(i).Name; {
		case name == "header" || name == "answer": // a room has tests of its own
		case !all.Field(i).IsZero():
			t.Errorf("%s is not empty", name)
		}
	}
}

// A client that sends many fields, all of which are removed, leaves no large map to the next
// request.
func TestMemoryHasNoLargeHeader(t *testing.T) {
	for fields, kept := range map[int]bool{0: true, maxKeptHeader: true, maxKeptHeader + 1: false} {
		x := &exchange{memory: newMemory()}
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		for i := range fields {
			r.Header.Set(fmt.Sprint("X-Forwarded-", i), "a")
		}
		out := x.outgoing(r)
		if len(out.Header) != fields {
			t.Errorf("of %d fields, %d are copied", fields, len(out.Header))
		}
		if same := reflect.ValueOf(out.Header).Pointer() == reflect.ValueOf(x.header).Pointer(); same != kept {
			t.Errorf("a header of %d fields is in the memory: %v", fields, same)
		}
	}
}
