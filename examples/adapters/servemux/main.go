// Command servemux limits the routes of an http.ServeMux: all by client address, and
// one of them more strictly.
package main

import (
	"cmp"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func main() {
	store := stint.NewMemory(stint.MemoryOptions{})
	pages, err := limit(store, "pages", "5/h")
	if err != nil {
		log.Fatal(err)
	}
	logins, err := limit(store, "logins", "1/h")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)
	mux.Handle("GET /login", logins.Wrap(http.HandlerFunc(hello)))
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		Handler:           pages.Wrap(mux),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

func limit(store stint.Store, name, text string) (*httplimit.Middleware, error) {
	limiter, err := stint.NewLimiter(store, name, stint.MustParseLimit(text))
	if err != nil {
		return nil, err
	}
	return httplimit.Limit(limiter, httplimit.Options{})
}

func hello(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "hello\n")
}
