package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/internal/suggest"
)

// envoyJSON answers POST /json: the request and response of Envoy's rate limit service as
// JSON.
func (a *API) envoyJSON(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r, nil)
	if err != nil {
		a.errors.write(w, r, err)
		return
	}
	var request ratelimitpb.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		// protojson varies its spaces, so that nobody relies on its texts.
		text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
		a.errors.write(w, r, badRequest("body: is not a rate limit request: %s", withNearest(text, &request)))
		return
	}
	response, err := a.options.Envoy(w3ctrace.WithRef(r.Context(), tracing.RefOf(r.Context(), r.Header[w3ctrace.Parent])), &request)
	if err != nil {
		a.errors.write(w, r, fromStatus(err))
		return
	}
	written, err := protojson.Marshal(response)
	if err != nil {
		a.errors.write(w, r, err)
		return
	}
	code := http.StatusOK
	if response.GetOverallCode() == ratelimitpb.RateLimitResponse_OVER_LIMIT {
		code = http.StatusTooManyRequests
	}
	writeJSON(w, code, json.RawMessage(written))
}

// fromStatus translates a gRPC status to an HTTP answer. Envoy's service has already
// logged the cause, unless the caller or the command line caused it.
func fromStatus(err error) error {
	s := status.Convert(err)
	if s.Code() == codes.InvalidArgument {
		return &apiError{http.StatusBadRequest, codeInvalid, s.Message()}
	}
	code := codeInternal
	if s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded {
		code = codeUnavailable
	}
	return loggedError{&apiError{http.StatusInternalServerError, code, s.Message()}}
}

// withNearest adds to protojson's error of an unknown field the most similar field that
// the message has at any depth.
func withNearest(text string, m proto.Message) string {
	_, rest, ok := strings.Cut(text, `unknown field "`)
	if !ok {
		return text
	}
	name, _, _ := strings.Cut(rest, `"`)
	if near, ok := suggest.Name(name, jsonNames(m.ProtoReflect().Descriptor(), map[protoreflect.FullName]bool{})); ok {
		return text + " (did you mean " + near + "?)"
	}
	return text
}

// jsonNames returns the names of the fields of a message and of all messages in it that
// are not in seen.
func jsonNames(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) (names []string) {
	if seen[m.FullName()] {
		return nil
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		names = append(names, f.JSONName())
		if f.Message() != nil {
			names = append(names, jsonNames(f.Message(), seen)...)
		}
	}
	return names
}
