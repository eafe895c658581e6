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
// The lines name no address, because a client may have any number of them.
func watchRefusals(ctx context.Context, stats func() slowclient.AddressStats, log *slog.Logger) {
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
		log.Warn("the gateway closes connections of abusive clients (a proxy in front of it belongs into --trusted-proxies)",
			"addresses_refused", begun, "refused", refused, "over_connection_limit", over, "closed", closed)
	})
}
