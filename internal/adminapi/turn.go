package adminapi

import "context"

// turn lets one request at a time do what takes time and memory by the size of
// the rules: many at once would take that of the requests that are decided.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, as long as ctx lasts.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) end() { <-t }
