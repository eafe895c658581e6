// Command ownstore counts in a store of its own, which keeps a file per key: counts
// survive the end of the program. docs/write-your-own-store.md explains each step.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/stintdev/stint"
)

func main() {
	dir := cmp.Or(os.Getenv("DIR"), os.TempDir()+"/ownstore")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Fatal(err)
	}
	limiter, err := stint.NewLimiter(&fileStore{dir: dir, clock: time.Now}, "runs", stint.MustParseLimit("3/h"))
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Allow(context.Background(), "me")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("allowed=%v remaining=%d\n", d.Allowed, d.Remaining)
}
