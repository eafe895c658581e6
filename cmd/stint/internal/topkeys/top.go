package topkeys

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Top is the keys with the highest counts, those first whose count less its error is
// highest.
type Top struct {
	Items []Item `json:"items"`
	// Since is the beginning of the period that was counted.
	Since time.Time `json:"since"`
	// Floor bounds the count of each key that is not among the items.
	Floor int64 `json:"floor"`
}

// Item is a key of a rule. Between Count-Error and Count of its claims were allowed or
// denied, whichever was asked for.
type Item struct {
	Rule  string `json:"rule"` // [Takes] for limits that callers bring
	Key   string `json:"key"`  // shortened
	Count int64  `json:"count"`
	Error int64  `json:"error"`
	// Hash stands for the rule and the whole key under the secret of the server, in answers of the
	// admin API alone: package denials makes it.
	Hash string `json:"hash,omitempty"`
	// ID is the hash of the rule and the whole key, the same on every node. It is for admins
	// only: who sees it can try out keys until one has the hash.
	ID uint64 `json:"id,omitempty,string"`
}

// Top returns the keys whose claims were denied or allowed most often in a window, which
// ends now and is up to a quarter shorter than its name.
func (s *Sketch) Top(w Window, byDenied bool) Top {
	t := allowed
	if byDenied {
		t = denied
	}
	return Merge(s.panes.top(&s.buckets, slices.Index(windows[:], w), t))
}

// top returns the panes of a window, and the counts of this interval, which has not ended.
func (p *panes) top(buckets *[bucketCount]bucket, window, table int) (parts []Top) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.rings[window][table]
	for i := range r.panes {
		if !r.began[i].IsZero() {
			parts = append(parts, r.panes[i].top(r.began[i]))
		}
	}
	p.current.gather(buckets, table, false)
	return append(parts, p.current.top(time.Now()))
}

func (s *summary) top(since time.Time) Top {
	items := make([]Item, len(s.slots))
	for i := range s.slots {
		one := &s.slots[i]
		items[i] = Item{one.rule, string(bytes.TrimRight(one.key[:], "\x00")), one.count, one.error, "", one.id}
	}
	return Top{items, since, s.floor}
}

// Merge returns the counts of several nodes or periods together. The items of all must have
// ids.
func Merge(parts []Top) Top {
	type identity struct {
		rule, key string
		id        uint64
	}
	type sum struct {
		Item

		floors int64 // of the parts that have the key
	}
	all, sums := Top{Items: []Item{}}, map[identity]sum{}
	for _, part := range parts {
		all.Floor += part.Floor
		if all.Since.IsZero() || part.Since.Before(all.Since) {
			all.Since = part.Since
		}
		for _, item := range part.Items {
			id := identity{item.Rule, item.Key, item.ID}
			known := sums[id]
			item.Count += known.Count
			item.Error += known.Error
			sums[id] = sum{item, known.floors + part.Floor}
		}
	}
	for _, one := range sums {
		one.Count += all.Floor - one.floors
		one.Error += all.Floor - one.floors
		all.Items = append(all.Items, one.Item)
	}
	slices.SortFunc(all.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.Count-b.Error, a.Count-a.Error), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// Cut keeps the first n items. With a rule it keeps those of that rule.
func (t *Top) Cut(rule string, n int) {
	if rule != "" {
		t.Items = slices.DeleteFunc(t.Items, func(i Item) bool { return i.Rule != rule })
	}
	for _, item := range t.Items[min(n, len(t.Items)):] {
		t.Floor = max(t.Floor, item.Count)
	}
	t.Items = t.Items[:min(n, len(t.Items))]
}
