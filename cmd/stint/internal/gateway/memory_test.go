package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
)

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
