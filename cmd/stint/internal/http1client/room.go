package http1client

import (
	"net/http"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// Room is memory for a response, which its owner lends to one request after the other. A
// response and its header take a third of the memory of a proxied request. The zero value is
// ready for use.
//
// The request whose context has the room as its value of [RoomKey] borrows it. It gets the
// first plain response to the request; other responses have memory of their own. The owner
// calls Release after the body has been closed, when nothing uses the response, its header
// and its body any more. The values of fields and their lists may be kept.
type Room struct {
	response received
	header   http.Header
	taken    bool
}

// RoomKey is the key of a [*Room] in the context of a request.
type RoomKey struct{}

// roomOf returns the room that the request borrows, or nil.
func roomOf(r *http.Request) *Room {
	m, _ := r.Context().Value(RoomKey{}).(*Room)
	return m
}

// take returns memory for a response, with an empty header.
func (m *Room) take() *received {
	if m == nil || m.taken {
		return &received{Response: http.Response{Header: http.Header{}}}
	}
	m.taken = true
	if m.header == nil {
		m.header = http.Header{}
	}
	m.response.Header = m.header
	return &m.response
}

// Release ends the use of the response. It does not keep the memory of a header that was or is
// large: a map never shrinks, so it would slow the following responses down.
func (m *Room) Release() {
	if !m.taken {
		return
	}
	h := m.header
	if m.response.many || len(h) > http1line.MaxKeptFields {
		h = nil
	}
	clear(h)
	*m = Room{header: h}
}
