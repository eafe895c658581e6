// Command chi limits a group of routes of a chi router by client address. chi takes
// net/http middleware as it is.
package main

import (
	"cmp"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func main() {
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "api", stint.MustParseLimit("3/h"))
	if err != nil {
		log.Fatal(err)
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	router := chi.NewRouter()
	router.Get("/healthz", hello)
	router.Route("/api", func(api chi.Router) {
		api.Use(limited.Wrap)
		api.Get("/", hello)
	})
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		Handler:           router,
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

func hello(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "hello\n")
}
