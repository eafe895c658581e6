package grpcapi

import (
	"crypto/sha256"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// checkID returns an error for the request id of a message, unless it has none.
func checkID(id string) error {
	if id == "" { // nearly always
		return nil
	}
	if err := decide.CheckRequestID(id); err != nil {
		return badRequest("request_id: %v", err)
	}
	return nil
}

// once lets the caller repeat the item of a message that was added last, if the message has
// a request id.
func (r *round) once(id string, m proto.Message) {
	if id == "" {
		return
	}
	body, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // a message that arrived can be written
	r.onceOf(id, body)
}

func (r *round) onceOf(id string, body []byte) {
	sum := sha256.Sum256(body)
	r.Once(&stint.Once{ID: id, Body: [16]byte(sum[:16])})
}

// body returns the attributes of a row as bytes, different for different attributes.
func (r *row) body() (text []byte) {
	for i := range r.names {
		for _, part := range [...]string{r.names[i], r.values[i]} {
			text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
		}
	}
	return text
}

// checkOnces checks the columns of the request ids of n groups.
func checkOnces(m *stintv1.TakeBatchRequest, n int) error {
	if entries := len(m.GetRequestIds()); entries != 0 && entries != n {
		return badRequest("request_ids: has %d entries for %d groups (give one for each, or none)", entries, n)
	}
	if entries := len(m.GetRequestBodies()); entries != 0 && entries != n {
		return badRequest("request_bodies: has %d entries for %d groups (give one for each, or none)", entries, n)
	}
	for i, body := range m.GetRequestBodies() {
		if len(body) != 0 && len(body) != len(stint.Once{}.Body) {
			return badRequest("request_bodies: entry %d has %d bytes (give 16, or none)", i, len(body))
		}
	}
	return nil
}

// onceAt returns the Once of group i, which has a request id.
func onceAt(m *stintv1.TakeBatchRequest, i int) *stint.Once {
	o := &stint.Once{ID: string(m.GetRequestIds()[i])}
	if bodies := m.GetRequestBodies(); len(bodies) > 0 {
		copy(o.Body[:], bodies[i])
	}
	return o
}
