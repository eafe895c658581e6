package adminclient

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// asking is a client of a handler, over a real connection.
func asking(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Client{URL: u, Token: "secret", Author: "vera"}
}

func TestARequestSaysAllThatItIsGiven(t *testing.T) {
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := strings.Join([]string{r.Method, r.URL.String(), string(body), r.Header.Get("Authorization"), r.Header.Get("If-Match"),
			r.Header.Get("X-Stint-Comment"), r.Header.Get("X-Stint-Author"), r.Header.Get("Accept")}, "|")
		w.Header().Set("ETag", `W/"b"`)
		_, _ = w.Write([]byte(got))
	})
	a, err := c.Do(t.Context(), Request{Method: "PUT", Path: "/rules", Query: url.Values{"dry_run": {"true"}}, IfMatch: `"a"`, Comment: "why", Body: []byte("rules: []")})
	if err != nil || a.Tag != `"b"` || string(a.Body) != `PUT|/rules?dry_run=true|rules: []|Bearer secret|"a"|why|vera|application/json` {
		t.Errorf("%v %q %s", err, a.Tag, a.Body)
	}
}

func TestATokenIsNotTakenElsewhere(t *testing.T) {
	elsewhere := asking(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirection is followed") })
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL.String(), http.StatusTemporaryRedirect)
	})
	if _, err := c.Do(t.Context(), Request{Method: "GET", Path: "/rules"}); err == nil || !strings.HasPrefix(err.Error(), `307 Temporary Redirect to "`+elsewhere.URL.String()+`"`) {
		t.Errorf("%v", err)
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	c := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = w.Write([]byte(`{"error":{"code":"PRECONDITION_FAILED","message":"no","problems":[{"file":"body","line":2,"column":3,"what":"w","mend":"m"}],"diff":{"from":1,"to":2}}}`))
	})
	_, err := c.Do(t.Context(), Request{Method: "PUT", Path: "/rules"})
	refused, ok := errors.AsType[*Error](err)
	if !ok || refused.Code != CodePrecondition || refused.Diff.To != 2 || refused.Problems.Error() != "body:2:3: w (m)" || !strings.HasPrefix(err.Error(), "412 Precondition Failed: no") {
		t.Errorf("%#v", err)
	}
}

func TestOtherAnswersAreNotTakenForStints(t *testing.T) {
	for _, answer := range []string{"", "<html>", "[]", "null", "{}", `{"error":null}`} {
		c := asking(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
		var h History
		if _, err := c.Into(t.Context(), Request{Method: "GET", Path: "/rules/history"}, &h); err == nil || err.Error() != notStint {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestWhetherAChangeWasDoneIsNotGuessed(t *testing.T) {
	gone := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	proxy := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }
	refusing := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":{"message":"no"}}`))
	}
	failing := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":{"message":"no","unknown":true}}`))
	}
	nobody := asking(t, gone)
	nobody.URL.Host = "127.0.0.1:1"
	for name, one := range map[string]struct {
		client  *Client
		change  bool
		unknown bool
	}{
		"gone":        {asking(t, gone), true, true},
		"a proxy":     {asking(t, proxy), true, true},
		"a read":      {asking(t, gone), false, false},
		"refused":     {asking(t, refusing), true, false},
		"failed":      {asking(t, failing), true, true},
		"not reached": {nobody, true, false},
	} {
		_, err := one.client.Do(t.Context(), Request{Method: "PUT", Path: "/rules", Change: one.change})
		if err == nil || strings.Contains(err.Error(), "taken effect or not") != one.unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHandlerAnswersInProcess(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "localhost"}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(`{"error":{"code":"X","message":"` + r.RequestURI + `"}}`))
	})
	c := &Client{URL: u, Transport: InProcess{h}}
	if _, err := c.Do(t.Context(), Request{Method: "GET", Path: "/rules"}); err == nil || !strings.Contains(err.Error(), "418 I'm a teapot: /rules") {
		t.Errorf("%v", err)
	}
}
