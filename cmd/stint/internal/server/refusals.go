package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
)

// refusalPause is the time between two log lines about refused connections.
const refusalPause = time.Minute

// watchRefusals logs what the gateway does to abusive client addresses, until ctx ends: at
// once when it begins, and then at most once a minute with the counts since the last line.
// A line names one address, the newest: an operator sees by it that a proxy is refused.
func watchRefusals(ctx context.Context, stats func() slowclient.AddressStats, log *slog.Logger) {
	const mend = "if the address is that of a proxy or load balancer, name it in --trusted-proxies"
	var logged slowclient.AddressStats
	wait := time.Duration(0)
	poll(ctx, func() {
		now := stats()
		wait -= evictionPoll
		begun, refused, over, closed := now.Refusals-logged.Refusals, now.Refused-logged.Refused, now.OverLimit-logged.OverLimit, now.Closed-logged.Closed
		if wait > 0 || begun+refused+over+closed == 0 {
			return
		}
		logged, wait = now, refusalPause
		if begun+refused+over == 0 {
			log.Warn("the gateway closed connections of clients that never back off", "closed", closed)
			return
		}
		log.Warn("the gateway closes connections of abusive addresses", "addresses_refused", begun, "refused", refused,
			"over_connection_limit", over, "closed", closed, "newest_address", now.Last, "mend", mend)
	})
}
