package replay

// entry is the sort key of an event and its slot.
type entry struct {
	t     int64
	order uint64
	slot  int32
}

func (a entry) before(b entry) bool {
	if a.t != b.t {
		return a.t < b.t
	}
	return a.order < b.order
}

// orderer returns events in order of (time, input, line). Events that arrive in
// order are appended to a queue without sorting. Only the others go through a
// heap.
type orderer struct {
	slots []pending
	free  []int32
	run   queue
	heap  []entry
}

func (o *orderer) push(p pending) {
	e := entry{p.t, p.order, o.store(p)}
	if o.run.accepts(e) {
		o.run.push(e)
		return
	}
	o.heap = append(o.heap, e)
	o.up(len(o.heap) - 1)
}

func (o *orderer) store(p pending) int32 {
	if n := len(o.free); n > 0 {
		slot := o.free[n-1]
		o.free = o.free[:n-1]
		o.slots[slot] = p
		return slot
	}
	o.slots = append(o.slots, p)
	return int32(len(o.slots) - 1)
}

// pop removes the first event and reports true, if its time is before the given
// one.
func (o *orderer) pop(before int64, p *pending) bool {
	first, inRun := o.first()
	if first.slot < 0 || first.t >= before {
		return false
	}
	if inRun {
		o.run.pop()
	} else {
		o.popHeap()
	}
	*p = o.slots[first.slot]
	o.slots[first.slot].text, o.slots[first.slot].raw = "", "" // lets the block that holds them be freed
	o.free = append(o.free, first.slot)
	return true
}

func (o *orderer) empty() bool { return len(o.free) == len(o.slots) }

func (o *orderer) first() (e entry, inRun bool) {
	run, ok := o.run.first()
	switch {
	case len(o.heap) == 0 && !ok:
		return entry{slot: -1}, false
	case len(o.heap) == 0, ok && run.before(o.heap[0]):
		return run, true
	}
	return o.heap[0], false
}

func (o *orderer) popHeap() {
	last := len(o.heap) - 1
	o.heap[0] = o.heap[last]
	o.heap = o.heap[:last]
	o.down(0)
}

// heapWidth is the number of children of a heap entry. Four children fit into
// one or two cache lines, and the heap is half as high as a binary one.
const heapWidth = 4

func (o *orderer) up(i int) {
	moved := o.heap[i]
	for i > 0 {
		parent := (i - 1) / heapWidth
		if !moved.before(o.heap[parent]) {
			break
		}
		o.heap[i] = o.heap[parent]
		i = parent
	}
	o.heap[i] = moved
}

func (o *orderer) down(i int) {
	if len(o.heap) == 0 {
		return
	}
	moved := o.heap[i]
	for {
		child := o.leastChild(i)
		if child < 0 || !o.heap[child].before(moved) {
			break
		}
		o.heap[i] = o.heap[child]
		i = child
	}
	o.heap[i] = moved
}

func (o *orderer) leastChild(i int) int {
	first := heapWidth*i + 1
	if first >= len(o.heap) {
		return -1
	}
	least := first
	for c := first + 1; c < min(first+heapWidth, len(o.heap)); c++ {
		if o.heap[c].before(o.heap[least]) {
			least = c
		}
	}
	return least
}

// queue is a FIFO queue of entries in ascending order.
type queue struct {
	entries []entry
	head    int
}

func (q *queue) accepts(e entry) bool {
	return q.head == len(q.entries) || q.entries[len(q.entries)-1].before(e)
}

func (q *queue) push(e entry) {
	if q.head > len(q.entries)/2 && len(q.entries) == cap(q.entries) {
		kept := copy(q.entries, q.entries[q.head:])
		q.entries, q.head = q.entries[:kept], 0
	}
	q.entries = append(q.entries, e)
}

func (q *queue) first() (entry, bool) {
	if q.head == len(q.entries) {
		return entry{}, false
	}
	return q.entries[q.head], true
}

func (q *queue) pop() {
	if q.head++; q.head == len(q.entries) {
		q.entries, q.head = q.entries[:0], 0
	}
}
