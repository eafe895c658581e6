package http1client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// roundTrip sends a request that borrows the room, and reads the body of the response.
func roundTrip(t *testing.T, tr *Transport, url string, m *Room) (res *http.Response, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithValue(t.Context(), RoomKey{}, m), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if res, err = tr.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// answers serves each request of a connection the next of the given responses.
func answers(t *testing.T, responses ...string) (url string) {
	t.Helper()
	url, _ = script(t, func(_ int64, c net.Conn, next func() bool) {
		for i := 0; next(); i++ {
			_, _ = io.WriteString(c, responses[i%len(responses)])
		}
	})
	return url
}

func TestResponsesInARoomAreIndependent(t *testing.T) {
	plain := "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nB: 3\r\nContent-Length: 2\r\n\r\nab"
	chunked := "HTTP/1.1 201 Created\r\nC: 4\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n"
	empty := "HTTP/1.1 404 Not Found\r\nD: 5\r\nContent-Length: 0\r\n\r\n"
	responses := []string{plain, chunked, empty, plain, empty, chunked, chunked}
	url, tr, m := answers(t, responses...), newDialing(t), &Room{}
	var kept [][]string
	for i, sent := range responses {
		res, text := roundTrip(t, tr, url, m)
		want, _ := http.ReadResponse(bufio.NewReader(strings.NewReader(sent)), res.Request)
		body, _ := io.ReadAll(want.Body)
		if res.Status != want.Status || res.ContentLength != want.ContentLength || text != string(body) ||
			!maps.EqualFunc(res.Header, want.Header, slices.Equal) {
			t.Errorf("response %d is %s %v %q, want %s %v %q", i, res.Status, res.Header, text, want.Status, want.Header, body)
		}
		kept = append(kept, res.Header["B"])
		m.Release()
	}
	for i, values := range kept {
		if want := responses[i] == plain; slices.Equal(values, []string{"2", "3"}) != want {
			t.Errorf("the values of response %d have become %q", i, values)
		}
	}
}

// A room has one response until it is released, and the header of a large one never.
func TestRoomHasOneResponse(t *testing.T) {
	for fields, used := range map[int]bool{1: true, http1line.MaxKeptFields: false} { // and Content-Length
		var b strings.Builder
		for i := range fields {
			fmt.Fprintf(&b, "X-%d: x\r\n", i)
		}
		url, tr, m := answers(t, "HTTP/1.1 200 OK\r\n"+b.String()+"Content-Length: 1\r\n\r\nx"), newDialing(t), &Room{}
		first, _ := roundTrip(t, tr, url, m)
		second, _ := roundTrip(t, tr, url, m)
		if first == second || sameMap(first.Header, second.Header) || len(first.Header) != fields+1 {
			t.Error("two responses share the room")
		}
		before := first.Header
		m.Release()
		third, _ := roundTrip(t, tr, url, m)
		if third != first || sameMap(third.Header, before) != used || len(third.Header) != fields+1 {
			t.Errorf("%d fields: the room is used again: %v, its header: %v", fields, third == first, sameMap(third.Header, before))
		}
	}
}

// A response whose owner removes most of its fields leaves no large map to the next one.
func TestRoomKeepsNoLargeMap(t *testing.T) {
	var b strings.Builder
	for i := range http1line.MaxKeptFields {
		fmt.Fprintf(&b, "X-%d: x\r\n", i)
	}
	url, tr, m := answers(t, "HTTP/1.1 200 OK\r\n"+b.String()+"Content-Length: 1\r\n\r\nx"), newDialing(t), &Room{}
	first, _ := roundTrip(t, tr, url, m)
	before := first.Header
	clear(before)
	m.Release()
	if second, _ := roundTrip(t, tr, url, m); sameMap(second.Header, before) {
		t.Error("the header is used again")
	}
}

func sameMap(a, b http.Header) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
