// Command faketime plays a day of a mailing list in no time: the store and the limiter
// read a clock that only moves when somebody sleeps. Its test shows the other way,
// testing/synctest, which needs no clock of its own.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stintdev/stint"
)

// clock is the time of the simulation. It is for one goroutine.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	return ctx.Err()
}

func main() {
	day := &clock{now: time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)}
	store := stint.NewMemory(stint.MemoryOptions{Clock: day.Now})
	limiter, err := stint.NewLimiter(store, "mail", stint.MustParseLimit("100/h"))
	if err != nil {
		log.Fatal(err)
	}
	sent, err := send(context.Background(), limiter.WithClock(day), 1000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent, "mails were sent by", day.now.Format(time.TimeOnly))
}

// send is the code under test.
func send(ctx context.Context, limiter *stint.Limiter, mails int) (sent int, err error) {
	for ; sent < mails; sent++ {
		if err := limiter.Wait(ctx, "list"); err != nil {
			return sent, err
		}
	}
	return sent, nil
}
