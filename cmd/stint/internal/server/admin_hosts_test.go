package server

import (
	"net/http"
	"strings"
	"testing"
)

// fromBrowser sends a request to the admin listener under a name, as a browser does.
func (r *running) fromBrowser(method, path, host string, header ...string) answer {
	r.t.Helper()
	body := ""
	if method == http.MethodPost {
		body = `{"key":"k","limit":"1/h"}`
	}
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url("admin", path), strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Host = host
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return send(r.t, &http.Client{}, request)
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	plain := run(t, Config{})
	named := run(t, Config{AdminHosts: []string{"stint.example.com", "10.1.2.3"}})
	token := run(t, Config{AdminToken: "s3cret"})
	own := plain.Addr("admin").String()
	for name, c := range map[string]struct {
		server *running
		host   string
		header []string
		page   string // why it is refused; empty: it is not
	}{
		"a program":                    {plain, own, nil, ""},
		"localhost":                    {plain, "LOCALHOST:99", nil, ""},
		"IPv6":                         {plain, "[::1]", nil, ""},
		"its own page":                 {plain, own, []string{"Origin", "http://" + own, "Sec-Fetch-Site", "same-origin"}, ""},
		"its own page, old browser":    {plain, own, []string{"Origin", "http://" + own}, ""},
		"typed by the user":            {plain, own, []string{"Sec-Fetch-Site", "none"}, ""},
		"another origin":               {plain, own, []string{"Origin", "https://evil.example"}, foreignPage},
		"an origin without a name":     {plain, own, []string{"Origin", "null"}, foreignPage},
		"another site":                 {plain, own, []string{"Sec-Fetch-Site", "cross-site"}, foreignPage},
		"a sibling":                    {plain, own, []string{"Sec-Fetch-Site", "same-site"}, foreignPage},
		"another port here":            {plain, own, []string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, foreignPage},
		"a name that points here":      {plain, "evil.example", nil, foreignHost},
		"and says same origin":         {plain, "evil.example:6070", []string{"Origin", "http://evil.example:6070", "Sec-Fetch-Site", "same-origin"}, foreignHost},
		"a name that looks local":      {plain, "localhost.evil.example", nil, foreignHost},
		"a proxy without --admin-host": {plain, "stint.example.com", nil, foreignHost},
		"a proxy":                      {named, "stint.example.com", []string{"Origin", "https://stint.example.com", "Sec-Fetch-Site", "same-origin"}, ""},
		"with a port and capitals":     {named, "Stint.Example.com.:8443", nil, ""},
		"by address":                   {named, "10.1.2.3:443", nil, ""},
		"that sends its own Host":      {named, "127.0.0.1:6070", []string{"Origin", "https://stint.example.com"}, ""},
		"another name beside it":       {named, "evil.example", nil, foreignHost},
		"a name that ends in it":       {named, "evilstint.example.com", nil, foreignHost},
		"another page beside it":       {named, "stint.example.com", []string{"Origin", "https://evil.example"}, foreignPage},
		"any host with a token":        {token, "stint.internal", []string{"X-Stint-Token", "s3cret"}, ""},
		"another page with a token":    {token, "stint.internal", []string{"X-Stint-Token", "s3cret", "Origin", "https://evil.example"}, foreignPage},
	} {
		for _, what := range [][2]string{{"GET", "/rules"}, {"GET", "/metrics"}, {"GET", "/v1/top"}, {"POST", "/v1/reset"}} {
			got := c.server.fromBrowser(what[0], what[1], c.host, c.header...)
			want := http.StatusOK
			if c.page != "" {
				want = http.StatusForbidden
			}
			if got.status != want || c.page != "" && got.errorMessage() != c.page {
				t.Errorf("%s, %v: status %d, want %d: %s", name, what, got.status, want, got.body)
			}
		}
	}
}

func TestLinksToTheAdminPagesWork(t *testing.T) {
	for name, config := range map[string]Config{"no token": {}, "a token": {AdminToken: "s3cret"}} {
		s := run(t, config)
		own := s.Addr("admin").String()
		got := s.fromBrowser("GET", "/ui/", own, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
		if got.status != http.StatusOK || !strings.Contains(got.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: status %d, %v", name, got.status, got.header)
		}
		if got := s.fromBrowser("GET", "/ui", own); got.header.Get("Location") != "ui/" {
			t.Errorf("%s: status %d, %v", name, got.status, got.header)
		}
		if got := s.fromBrowser("GET", "/uix", own); got.status != http.StatusNotFound {
			t.Errorf("%s: status %d at a path beside the pages", name, got.status)
		}
	}
	if got := run(t, Config{}).fromBrowser("GET", "/ui/", "evil.example"); got.status != http.StatusForbidden {
		t.Errorf("by a name that points here: status %d", got.status)
	}
}

func TestAdminHostsAreNames(t *testing.T) {
	for name, refused := range map[string]bool{
		"stint.example.com": false, "localhost": false, "10.0.0.1": false, "::1": false, "stint": false,
		"": true, "https://stint.example.com": true, "stint.example.com:443": true, "*.example.com": true, "Stint.example.com": true, "a/b": true, "a b": true, "[::1]": true,
	} {
		_, err := New(Config{Admin: "127.0.0.1:0", AdminHosts: []string{name}, Store: failing{}})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "admin-hosts: ") {
			t.Errorf("%q: error %v", name, err)
		}
	}
}
