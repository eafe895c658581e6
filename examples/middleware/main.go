// Command middleware is a web server with a limit of ten requests a second for each
// client address. Run it and send requests to port 8090.
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func main() {
	limit, err := stint.ParseLimit("10/s")
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "hello", limit)
	if err != nil {
		log.Fatal(err)
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "hello") // the client may be gone
	})

	s := &http.Server{Addr: "127.0.0.1:8090", Handler: limited.Wrap(hello), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(s.ListenAndServe())
}
