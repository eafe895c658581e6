package adminapi

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

var loaded = sync.OnceValues(func() (*openapi3.T, error) {
	for _, kind := range []string{"text/event-stream", "text/csv"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.PlainBodyDecoder)
	}
	return openapi3.NewLoader().LoadFromData(openapiDocument)
})

func document(t *testing.T) *openapi3.T {
	t.Helper()
	d, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDocumentIsValidServedAndComplete(t *testing.T) {
	d := document(t)
	if err := d.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	f := newFixture(t, "")
	if got := f.want(200, "GET", "/openapi.yaml", ""); got.body != string(openapiDocument) {
		t.Error(got.body)
	}
	routed, documented := map[string]bool{"GET /openapi.yaml": true}, map[string]bool{}
	for _, e := range f.endpoints() {
		routed[routeOf(e.pattern)] = true
	}
	for path, item := range d.Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+path] = true
		}
	}
	if a, b := slices.Sorted(maps.Keys(routed)), slices.Sorted(maps.Keys(documented)); !slices.Equal(a, b) {
		t.Errorf("routed:     %v\ndocumented: %v", a, b)
	}
}

// asDocumented checks an exchange of any test against the document. It checks the request too,
// if the server accepted it.
func asDocumented(f *fixture, method, path, body string, header []string, w *httptest.ResponseRecorder) {
	f.t.Helper()
	bare, _, _ := strings.Cut(path, "?")
	request := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	_, pattern := f.mux.Handler(request)
	if pattern == "" {
		return // there is no such endpoint, and so the document has none
	}
	d := document(f.t)
	route := routeOf(pattern[strings.IndexByte(pattern, ' ')+1:])
	item := d.Paths.Value(route)
	input := &openapi3filter.RequestValidationInput{
		Request: request, PathParams: parts(route, bare),
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
		Route:   &routers.Route{Spec: d, Path: route, PathItem: item, Method: method, Operation: item.GetOperation(method)},
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if err := openapi3filter.ValidateRequest(f.t.Context(), input); err != nil && w.Code == 200 && !strings.Contains(fmt.Sprint(err), "failed to decode") {
		f.t.Errorf("%s %s %.200s: the document says of the request: %v", method, path, body, err)
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Options: input.Options,
	}
	if err := openapi3filter.ValidateResponse(f.t.Context(), response); err != nil {
		f.t.Errorf("%s %s: the document says of %.300s: %v", method, path, w.Body, err)
	}
}

// routeOf returns the path of the document for a pattern.
func routeOf(pattern string) string {
	return strings.NewReplacer("...", "", "{$}", "").Replace(pattern)
}

// parts are the parameters of a path; the last may have slashes.
func parts(route, path string) map[string]string {
	values, names := map[string]string{}, strings.Split(route, "/")
	for i, part := range strings.SplitN(path, "/", len(names)) {
		if name, ok := strings.CutPrefix(names[i], "{"); ok {
			values[strings.TrimSuffix(name, "}")] = strings.ReplaceAll(part, "%2F", "/")
		}
	}
	return values
}

func TestTheDocumentNamesEveryCode(t *testing.T) {
	codes := document(t).Components.Schemas["Error"].Value.Properties["error"].Value.Properties["code"].Value.Enum
	for _, code := range []string{"INVALID_REQUEST", "INVALID_RULES", "FORBIDDEN", "IMPACT", "PRECONDITION_FAILED"} {
		if !slices.Contains(codes, any(code)) {
			t.Errorf("%s is not documented", code)
		}
	}
}
