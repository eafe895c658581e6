package replay

import (
	"context"
	"testing"
	"time"
)

// The deadline of a replay says nothing of how long the recorded clients waited, however many
// goroutines and rule sets decide.
func TestTheDeadlineOfAReplayDeniesNothing(t *testing.T) {
	slow := ruleSet(t, "rules: [{id: slow, by: [ip], algorithm: leaky_bucket, limit: 1/h, queue: 100}, {id: closed, match: {path: /closed}, by: [ip], deny_all: true}]")
	events := ""
	for range 9 {
		events += request(`"path":"/a"`) + request(`"path":"/closed"`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // less than the delays
	defer cancel()
	for name, o := range map[string]Options{
		"rules":   {Rules: slow, Alone: true, Against: slow},
		"retries": {Rules: slow, Retries: PoliteRetries},
		"a limit": {Limit: compiled(t, `{"algorithm":"leaky_bucket","limit":1,"window":"1h","queue":100}`), By: "ip"},
	} {
		want, err := Run(t.Context(), o, inputsOf(events)...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Run(ctx, o, inputsOf(events)...); err != nil || asJSON(t, &got) != asJSON(t, &want) {
			t.Errorf("%s: %v, %s\nwithout a deadline: %s", name, err, asJSON(t, &got), asJSON(t, &want))
		}
	}
}
