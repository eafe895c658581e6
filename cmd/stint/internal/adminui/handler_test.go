package adminui

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func pages() http.Handler {
	return newSite(fstest.MapFS{
		"dist/index.html":               {Data: []byte("<!doctype html>" + strings.Repeat("<p>text</p>", 100))},
		"dist/assets/main-0A1B2C3D.js":  {Data: []byte(strings.Repeat("f();", 100))},
		"dist/assets/main.css":          {Data: []byte("p{}")},
		"dist/assets/picture-small.svg": {Data: []byte("<svg/>")},
	})
}

func ask(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestEveryAnswerForbidsForeignScripts(t *testing.T) {
	for _, path := range []string{"/ui", "/ui/", "/ui/assets/main-0A1B2C3D.js", "/ui/none", "/ui/../x", "/ui//"} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			w := ask(t, pages(), method, path)
			for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s %s: %s is %q", method, path, name, got)
				}
			}
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Error(policy)
	}
}

func TestFilesAreCachedByTheirContents(t *testing.T) {
	for path, want := range map[string]string{
		"/ui/":                          "no-cache",
		"/ui/index.html":                "no-cache",
		"/ui/assets/main-0A1B2C3D.js":   "public, max-age=31536000, immutable",
		"/ui/assets/main.css":           "no-cache",
		"/ui/assets/picture-small.svg":  "no-cache",
		"/ui/assets/main-0A1B2C3D.js.x": "no-store",
	} {
		w := ask(t, pages(), "GET", path)
		if got := w.Header().Get("Cache-Control"); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		tag := w.Header().Get("ETag")
		if w.Code != http.StatusOK {
			continue
		}
		again := ask(t, pages(), "GET", path, "If-None-Match", `"other", `+tag)
		if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s: status %d with its own tag", path, again.Code)
		}
	}
}

func TestFilesAreSentCompressed(t *testing.T) {
	plain := ask(t, pages(), "GET", "/ui/assets/main-0A1B2C3D.js")
	for accept, want := range map[string]bool{"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "br": false, "": false, "gzipped": false} {
		w := ask(t, pages(), "GET", "/ui/assets/main-0A1B2C3D.js", "Accept-Encoding", accept)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("%q: compressed %v", accept, got)
			continue
		}
		var body io.Reader = w.Body
		if want {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		text, err := io.ReadAll(body)
		if err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
			t.Errorf("%q: %q, error %v", accept, text, err)
		}
		if w.Header().Get("Vary") != "Accept-Encoding" || (w.Header().Get("ETag") == plain.Header().Get("ETag")) == want {
			t.Errorf("%q: a cache may mix the two up: %v", accept, w.Header())
		}
	}
	if w := ask(t, pages(), "GET", "/ui/assets/main.css", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" {
		t.Error("a file is sent compressed although that is longer")
	}
}

func TestTheFolderIsFoundByARelativeAddress(t *testing.T) {
	w := ask(t, pages(), "GET", "/ui")
	if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "ui/" {
		t.Errorf("status %d, Location %q: a proxy's prefix would be lost", w.Code, w.Header().Get("Location"))
	}
	if w := ask(t, pages(), "GET", "/ui/"); !strings.HasPrefix(w.Body.String(), "<!doctype html>") || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%v %.80s", w.Header(), w.Body)
	}
}

func TestOtherRequestsAreRefused(t *testing.T) {
	if w := ask(t, pages(), "POST", "/ui/"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d", w.Code)
	}
	for _, path := range []string{"/ui/none", "/ui/assets", "/ui/assets/", "/ui/../handler.go", "/ui/dist/index.html", "/ui;x", "/ui//"} {
		if w := ask(t, pages(), "GET", path); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	if w := ask(t, pages(), "HEAD", "/ui/"); w.Body.Len() > 0 || w.Header().Get("Content-Length") == "" {
		t.Error("HEAD has a body, or no length")
	}
}

// TestTheBuiltPagesAreThere: the program always has an index, and its scripts and styles are
// files, because the policy forbids inline ones.
func TestTheBuiltPagesAreThere(t *testing.T) {
	w := ask(t, Handler(), "GET", "/ui/")
	page := w.Body.String()
	if w.Code != http.StatusOK || strings.Contains(page, "<style") || strings.Contains(page, " style=") || strings.Contains(page, "<script>") {
		t.Errorf("status %d: %s", w.Code, page)
	}
}
