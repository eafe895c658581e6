package rule

import "github.com/stintdev/stint"

func (c *compiler) compileLocal(d *rawRule, r *Rule) {
	if d.local == nil {
		return
	}
	r.local = r.identity
	if len(d.local.by) > 0 {
		r.local = identity{by: c.identityBy(d.local.by)}
	}
	for i := range d.local.by {
		r.LocalBy = append(r.LocalBy, c.set.slots.names[r.local.by[i]])
	}
	if d.local.level == nil {
		c.mistake(d.local.at, "local names no limit", "give it limit and window, or write on_store_failure: local")
		return
	}
	plan := plannedLimit{at: d.local.at, name: located{"local", d.local.at}, near: []*level{d.local.level}, must: true}
	if l, ok := c.compileLimit(&plan, d.id.text); ok {
		r.Local = l
		c.checkCost(d, []stint.Limit{l})
	}
}

// standIn returns the local limit that replaces the rule's limits while the
// store fails, or nil when the rule has none. All claims of a rule share one
// *stint.Local, by which stores know to count it once.
func (q *request) standIn(r *Rule, key string) (*stint.Local, verdict) {
	if !r.Local.Valid() {
		return nil, counted
	}
	if len(r.LocalBy) > 0 {
		var v verdict
		if key, v = q.key(&r.local); v != counted {
			return nil, v
		}
	}
	return &stint.Local{Key: key, Limit: r.Local}, counted
}
