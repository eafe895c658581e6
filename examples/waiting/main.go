// Command waiting has workers that send mails: at most five a second in all, in the
// order in which the workers ask. Wait also returns when its context ends, and at once
// with an error if the turn would come after the deadline of its context.
package main

import (
	"context"
	"log"

	"github.com/stintdev/stint"
)

func main() {
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "mail", stint.MustParseLimit("5/s"))
	if err != nil {
		log.Fatal(err)
	}
	for worker := range 3 {
		go func() {
			for limiter.Wait(context.Background(), "mail") == nil {
				log.Println("worker", worker, "sends a mail")
			}
		}()
	}
	select {}
}
