package httplimit

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The responses in docs/http.md are the responses that are sent.
func TestDocumentShowsWhatIsSent(t *testing.T) {
	text, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)

	w := httptest.NewRecorder()
	passed := Answer{Decision: allowed(), Policies: []Policy{orders(t)}}
	passed.SetHeaders(w.Header(), testNow)
	refused := Answer{Decision: denied(), Policies: []Policy{orders(t)}, Dialect: None}
	refused.SetHeaders(w.Header(), testNow)
	for name, values := range w.Header() {
		if line := name + ": " + values[0] + "\n"; !strings.Contains(strings.ToLower(document), strings.ToLower(line)) {
			t.Errorf("no line %q", line)
		}
	}

	var shown []string
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(document, -1) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(block[1])); err != nil {
			t.Fatal(err)
		}
		shown = append(shown, compact.String())
	}
	for _, accept := range []string{"", "application/problem+json"} {
		if sent := deny(&refused, "GET", accept).Body.String(); !slices.Contains(shown, sent) {
			t.Errorf("none of %d blocks is\n%s", len(shown), sent)
		}
	}
}
