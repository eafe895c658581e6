// Package adminui serves the admin pages, which are built into the program.
//
// Use it on a listener that also has the admin API: the pages call the API by relative
// addresses, so both work below any prefix of a proxy. The files are the same for everyone and
// hold no data, so they need no token.
//
// It promises that a page runs no script but its own and talks to no other server, because the
// Content-Security-Policy forbids both, and that a browser keeps a file only as long as its
// contents are the same.
package adminui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// dist holds the built pages.
//
//go:embed dist
var dist embed.FS

// Prefix is the path below which the pages are.
const Prefix = "/ui"

const index = "index.html"

// policy is the Content-Security-Policy of every answer. A text that a caller chose, such as a
// key or a path, can then run nothing even if a page showed it as markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler returns the handler of the pages, for [Prefix] and all paths below it.
func Handler() http.Handler { return newSite(dist) }

// site is the set of files by their paths below Prefix.
type site map[string]*file

// file is one file, as it is sent.
type file struct {
	kind, tag string
	// forever means that the name has a hash of the contents, so other contents have
	// another name.
	forever bool
	plain   []byte
	gzipped func() []byte // nil if gzip does not make the file smaller
}

// newSite reads the files of a folder dist.
func newSite(from fs.FS) site {
	s := site{}
	_ = fs.WalkDir(from, "dist", func(name string, entry fs.DirEntry, err error) error { // an embedded folder can be read
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		s["/"+strings.TrimPrefix(name, "dist/")] = newFile(name, data)
		return err
	})
	return s
}

// hashed matches the names of files that have a hash of their contents, as esbuild writes it.
var hashed = regexp.MustCompile(`-[A-Z0-9]{8}\.[a-z0-9]+$`)

func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	return &file{
		kind: kindOf(name), tag: hex.EncodeToString(sum[:12]), forever: hashed.MatchString(name), plain: data,
		gzipped: sync.OnceValue(func() []byte { return compress(data) }),
	}
}

// kindOf returns the media type of a file. It does not ask the system, whose types differ.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json", ".map":
		return "application/json"
	case ".woff2":
		return "font/woff2"
	case ".png":
		return "image/png"
	}
	return "application/octet-stream"
}

// compress returns the data compressed by gzip, or nil if that is not smaller.
func compress(data []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = z.Write(data)                                  // a buffer takes everything
	_ = z.Close()
	if b.Len() >= len(data) {
		return nil
	}
	return b.Bytes()
}

// ServeHTTP answers with a file. The address without a slash at its end is redirected to that
// with one by a relative address: relative addresses in a page are then those of its folder.
func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "use GET, HEAD")
	case name == "":
		h.Set("Location", strings.TrimPrefix(Prefix, "/")+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
	case name == "/":
		s["/"+index].send(w, r)
	case s[name] == nil:
		refuse(w, http.StatusNotFound, "there is no such file (the pages begin at "+Prefix+"/)")
	default:
		s[name].send(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(why + "\n")) // the client may be gone
}

// send answers with the file, or with 304 if the browser has it.
func (f *file) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Vary", "Accept-Encoding")
	body, tag := f.plain, `"`+f.tag+`"`
	if zipped := f.gzipped(); zipped != nil && acceptsGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body, tag = zipped, `"`+f.tag+`-gzip"`
	}
	h.Set("ETag", tag)
	if strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// acceptsGzip reports whether a client that sent these fields of Accept-Encoding reads gzip.
func acceptsGzip(fields []string) bool {
	for _, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			name, parameters, err := mime.ParseMediaType("x/" + strings.TrimSpace(part))
			if err == nil && name == "x/gzip" {
				q, err := strconv.ParseFloat(parameters["q"], 64)
				return err != nil || q > 0
			}
		}
	}
	return false
}
