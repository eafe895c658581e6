package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestMetricsShowEachPart(t *testing.T) {
	orders := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "an order")
	}))
	defer orders.Close()
	url := program.Serve(t, "ORDERS="+orders.URL)
	program.ExpectLimit(t, url, 3)

	metrics := body(t, url+"/metrics")
	for _, line := range []string{
		`stint_limiter_decisions_total{limiter="pages",op="take",result="allowed"} 3`,
		`stint_limiter_decisions_total{limiter="pages",op="take",result="denied"} 1`,
		`stint_keys{store="memory"} 1`,
		`stint_client_calls_total{dependency="orders",result="2xx"} 3`,
		`stint_client_breaker_state{dependency="orders",state="closed"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no line %s in\n%s", line, metrics)
		}
	}
}

func body(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
