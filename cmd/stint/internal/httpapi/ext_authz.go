package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/httpfield"
)

// extAuthz implements Envoy's ext_authz filter over gRPC
// (envoy.service.auth.v3.Authorization/Check), which Istio and Envoy Gateway use too. It
// is forward auth in another protocol: the same rules decide, and the client gets the
// same headers and bodies.
type extAuthz struct {
	authpb.UnimplementedAuthorizationServer

	auth  *ForwardAuth
	admit func(context.Context) error
}

// NewExtAuthz returns Envoy's authorization service over forward auth. admit returns an
// error for a call without the required token.
func NewExtAuthz(auth *ForwardAuth, admit func(context.Context) error) authpb.AuthorizationServer {
	return &extAuthz{auth: auth, admit: admit}
}

// Check implements the service. A request that forward auth would answer with 400 or 503
// is denied with that status, because Envoy lets a request pass after a failed call if
// failure_mode_allow is set.
func (e *extAuthz) Check(ctx context.Context, request *authpb.CheckRequest) (*authpb.CheckResponse, error) {
	if err := e.admit(ctx); err != nil {
		return nil, err
	}
	a := e.auth
	original, err := describedRequest(ctx, request.GetAttributes(), &a.identity.Clients)
	if err != nil {
		return nil, err
	}
	var w answerWriter
	answer, err := a.decide(original)
	if err != nil {
		a.fail(&w, original, err, statuses{})
	} else {
		(statuses{}).write(&w, original, &answer)
	}
	return w.response(), nil
}

// describedRequest returns the HTTP request that the attributes describe.
//
// The client address follows the rule of every other surface. A peer that is not trusted
// speaks only for itself, so its own address counts. For a trusted peer the address is
// the source that Envoy names, and X-Forwarded-For is read if that source is a trusted
// proxy itself.
func describedRequest(ctx context.Context, attributes *authpb.AttributeContext, clients *httplimit.Clients) (*http.Request, error) {
	described := attributes.GetRequest().GetHttp()
	if described == nil {
		return nil, status.Error(codes.InvalidArgument, "attributes.request.http: is missing (only requests over HTTP can be decided)")
	}
	r := &http.Request{
		Method: described.GetMethod(), Host: described.GetHost(), URL: parseTarget(cmp.Or(described.GetPath(), "/")),
		Proto: described.GetProtocol(), Header: describedHeader(described),
	}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = p.Addr.String()
	}
	if source := attributes.GetSource().GetAddress().GetSocketAddress(); source != nil && clients.TrustsPeer(r) {
		r.RemoteAddr = net.JoinHostPort(source.GetAddress(), strconv.FormatUint(uint64(source.GetPortValue()), 10))
	}
	return r.WithContext(ctx), nil
}

// describedHeader reads both forms in which Envoy sends header fields: header_map has one
// entry per line, and headers joins the lines of one name with commas. In both, a comma
// ends a line, as in forward auth.
func describedHeader(described *authpb.AttributeContext_HttpRequest) http.Header {
	h := make(http.Header, len(described.GetHeaders()))
	for name, joined := range described.GetHeaders() {
		addDescribed(h, textproto.CanonicalMIMEHeaderKey(name), joined)
	}
	for _, line := range described.GetHeaderMap().GetHeaders() {
		value := line.GetValue()
		if raw := line.GetRawValue(); len(raw) > 0 {
			value = string(raw)
		}
		addDescribed(h, textproto.CanonicalMIMEHeaderKey(line.GetKey()), value)
	}
	return httpfield.Separate(h)
}

func addDescribed(h http.Header, name, value string) {
	if !strings.HasPrefix(name, ":") { // a pseudo-header of HTTP/2
		h[name] = append(h[name], strings.TrimSpace(value))
	}
}

// answerWriter records an answer of forward auth.
type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *answerWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// response converts the recorded answer for Envoy. The delay of a leaky bucket goes into
// the dynamic metadata, for a filter behind this one.
func (w *answerWriter) response() *authpb.CheckResponse {
	if w.status == http.StatusOK {
		return &authpb.CheckResponse{
			Status:          &statuspb.Status{Code: int32(codes.OK)},
			DynamicMetadata: w.delay(),
			HttpResponse:    &authpb.CheckResponse_OkResponse{OkResponse: &authpb.OkHttpResponse{ResponseHeadersToAdd: w.options()}},
		}
	}
	code := codes.PermissionDenied
	if w.status == http.StatusTooManyRequests {
		code = codes.ResourceExhausted
	}
	return &authpb.CheckResponse{
		Status: &statuspb.Status{Code: int32(code)},
		HttpResponse: &authpb.CheckResponse_DeniedResponse{DeniedResponse: &authpb.DeniedHttpResponse{
			Status:  &typepb.HttpStatus{Code: typepb.StatusCode(w.status)},
			Headers: w.options(),
			Body:    w.body.String(),
		}},
	}
}

// delay returns how long the request should wait, or nil for no delay.
func (w *answerWriter) delay() *structpb.Struct {
	ms, err := strconv.ParseInt(w.header.Get(delayHeader), 10, 64)
	if err != nil {
		return nil
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"delay_ms": structpb.NewNumberValue(float64(ms))}}
}

// proxyFields are the canonical names of the header fields that are not for the client.
var proxyFields = [...]string{
	textproto.CanonicalMIMEHeaderKey(statusHeader), textproto.CanonicalMIMEHeaderKey(delayHeader), "Content-Length",
}

// options returns the header fields for the client, sorted by name. They replace fields
// of the same name from the application. Content-Length is omitted because Envoy sets it;
// fields for proxies are omitted too.
func (w *answerWriter) options() (options []*corepb.HeaderValueOption) {
	names := make([]string, 0, len(w.header))
	for name := range w.header {
		if !slices.Contains(proxyFields[:], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for i, value := range w.header[name] {
			action := corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
			if i > 0 {
				action = corepb.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
			}
			options = append(options, &corepb.HeaderValueOption{
				Header:       &corepb.HeaderValue{Key: name, Value: value},
				AppendAction: action,
			})
		}
	}
	return options
}
