package replay

import "context"

// completeMinutes passes on the events of a reader, without those of decision logs in minutes that
// lack lines.
//
// The gaps of files are known before their events are read. In a pipe, the line that shows a gap comes
// behind it, perhaps as the first of the next minute. So an event waits until there is an event of the
// next but one minute. Once a decision log is read, the events of all inputs wait, because they stay in
// order. A gap of a pipe that shows later than that leaves out only what still waits: this takes the
// memory of three minutes of events, not of the whole log.
type completeMinutes struct {
	log     *logTally
	each    func(context.Context, *pending) error
	waiting []pending // from head on
	head    int
	newest  int64 // minute of the newest event
	leaving pending
	leftOut int64 // number of events in minutes that lack lines
}

// add passes on the events that need not wait any longer, and the event itself if it need not.
func (c *completeMinutes) add(ctx context.Context, p *pending) error {
	if p.caller == 0 && c.head == len(c.waiting) {
		return c.each(ctx, p)
	}
	if c.head > len(c.waiting)/2 && len(c.waiting) == cap(c.waiting) {
		kept := copy(c.waiting, c.waiting[c.head:])
		clear(c.waiting[kept:]) // lets the blocks that hold the texts be freed
		c.waiting, c.head = c.waiting[:kept], 0
	}
	c.waiting = append(c.waiting, *p)
	c.newest = max(c.newest, p.t/minute)
	return c.release(ctx, c.newest-1)
}

// finish passes on all events that wait.
func (c *completeMinutes) finish(ctx context.Context) error { return c.release(ctx, maxTime) }

// release passes on the events that wait and are of a minute before the given one.
func (c *completeMinutes) release(ctx context.Context, before int64) error {
	for ; c.head < len(c.waiting) && c.waiting[c.head].t/minute < before; c.head++ {
		c.leaving, c.waiting[c.head] = c.waiting[c.head], pending{}
		if c.leaving.caller != 0 && c.log.inGap(c.leaving.t/minute) {
			c.leftOut++
			continue
		}
		if err := c.each(ctx, &c.leaving); err != nil {
			return err
		}
	}
	return nil
}
