package limitsearch

import "math"

// A request that is denied changes no state, so a limit knows only the times of
// the requests that it admitted. A late request is decided as at the newest of
// these, because a limit never turns time back.

// fixedWindow is a limit of the algorithm fixed_window, in microseconds.
type fixedWindow struct{ window int64 }

func (w fixedWindow) peak(c *caller) (most int64) {
	current, count := int64(0), int64(0)
	for r := range c.each {
		if at := r.t / w.window; at > current {
			current, count = at, 0
		}
		count += r.cost
		most = max(most, count)
	}
	return most
}

func (w fixedWindow) denied(c *caller, limit int64) (n int64) {
	current, count := int64(0), int64(0)
	for r := range c.each {
		at, used := r.t/w.window, int64(0)
		if at <= current {
			at, used = current, count
		}
		if used+r.cost > limit {
			n++
			continue
		}
		current, count = at, used+r.cost
	}
	return n
}

// slidingLog is a limit of the algorithm sliding_window_log, in microseconds: a
// unit admitted at a counts until a + window, that moment excluded.
type slidingLog struct{ window int64 }

func (w slidingLog) peak(c *caller) (most int64) {
	oldest, newest := logCursor{cursor: cursor{rest: c.requests}}, int64(0)
	oldest.advance()
	units := int64(0)
	for r := range c.each {
		newest = max(newest, r.t)
		for oldest.admitted <= newest-w.window {
			units -= oldest.cost
			oldest.advance()
		}
		units += r.cost
		most = max(most, units)
	}
	return most
}

// logCursor reads requests that are all admitted.
type logCursor struct {
	cursor

	admitted int64 // when the current request counts
}

func (c *logCursor) advance() {
	c.cursor.advance()
	c.admitted = max(c.admitted, c.t)
}

func (w slidingLog) denied(c *caller, limit int64) (n int64) {
	var log requestLog
	for r := range c.each {
		r.t = max(r.t, log.newest)
		log.expire(r.t - w.window)
		if log.units+r.cost > limit {
			n++
			continue
		}
		log.add(r)
	}
	return n
}

// requestLog is a queue of admitted requests, of which those from head on count.
type requestLog struct {
	queue  []request
	head   int
	units  int64 // sum of the costs that count
	newest int64
}

func (l *requestLog) add(r request) {
	if l.head > len(l.queue)/2 && len(l.queue) == cap(l.queue) {
		l.queue, l.head = l.queue[:copy(l.queue, l.queue[l.head:])], 0
	}
	l.queue = append(l.queue, r)
	l.units += r.cost
	l.newest = r.t
}

// expire moves head to the first request after a time. The time is earlier than
// before if a request was denied in between.
func (l *requestLog) expire(until int64) {
	for l.head > 0 && l.queue[l.head-1].t > until {
		l.head--
		l.units += l.queue[l.head].cost
	}
	for l.head < len(l.queue) && l.queue[l.head].t <= until {
		l.units -= l.queue[l.head].cost
		l.head++
	}
}

// tokenBucket is a limit of the algorithm token_bucket, whose burst varies. It
// counts in whole parts of a unit: perUnit of them are a unit, and gain of them
// come back each microsecond. That is the exact arithmetic of the bucket, whose
// rate is a fraction.
type tokenBucket struct{ gain, perUnit int64 }

const minute = 60_000_000 // in microseconds

// newTokenBucket returns a bucket of a rate in units a minute.
func newTokenBucket(rate int64) tokenBucket {
	d := gcd(rate, minute)
	return tokenBucket{rate / d, minute / d}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// endless is more than any bucket holds.
const endless = math.MaxInt64 / 2

func (b tokenBucket) peak(c *caller) (most int64) {
	last, used, greatest := int64(0), int64(0), int64(0)
	for r := range c.each {
		newest := max(last, r.t)
		used, last = b.drain(used, newest-last), newest
		if r.cost > (endless-used)/b.perUnit {
			return endless
		}
		used += r.cost * b.perUnit
		greatest = max(greatest, used)
	}
	return (greatest + b.perUnit - 1) / b.perUnit
}

func (b tokenBucket) denied(c *caller, burst int64) (n int64) {
	if burst > endless/b.perUnit {
		return 0
	}
	last, used, room := int64(0), int64(0), burst*b.perUnit
	for r := range c.each {
		now := max(last, r.t)
		left := b.drain(used, now-last)
		if r.cost > burst || r.cost*b.perUnit > room-left {
			n++
			continue
		}
		used, last = left+r.cost*b.perUnit, now
	}
	return n
}

// drain returns how much of the used part is still used after a time.
func (b tokenBucket) drain(used, elapsed int64) int64 {
	if elapsed > used/b.gain {
		return 0
	}
	return max(0, used-elapsed*b.gain)
}
