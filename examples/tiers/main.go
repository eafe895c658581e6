// Command tiers is a web server whose clients have plans: the API key of a request
// decides its limit, and requests without a known key are limited by address.
//
//	go run ./tiers
//	curl -i -H 'X-API-Key: k-free' localhost:8080
package main

import (
	"cmp"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/stintdev/stint"
)

// customers stands for the table of API keys and their plans.
var customers = map[string]string{"k-free": "free", "k-pro": "pro"}

func main() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "hello")
	})
	limited, err := limitByPlan(stint.NewMemory(stint.MemoryOptions{}), customers, hello)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		Handler:           limited,
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}
