package remotestore

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/boundedcache"
)

// columns writes claims as the columns of a TakeBatchRequest: one slice for each field
// of a claim. It is reused from batch to batch.
type columns struct {
	limits  limitMessages
	places  map[stint.Limit]uint32 // index in request.Limits
	last    stint.Limit            // the limit of the last lookup; most neighbors share one
	at      uint32                 // the index of last
	keys    []string
	plain   bool // every group has one claim
	local   bool // some claim has a local limit
	request stintv1.TakeBatchRequest
}

func newColumns(limits limitMessages) columns {
	return columns{limits: limits, places: map[stint.Limit]uint32{}, plain: true}
}

// reset empties the columns and keeps their memory.
func (m *columns) reset() {
	clear(m.places)
	clear(m.keys)
	m.keys, m.last, m.at, m.plain, m.local = m.keys[:0], stint.Limit{}, 0, true, false
	r := &m.request
	clear(r.GetLocalKeys())
	r.Limits, r.Limit, r.Cost, r.Extra = r.GetLimits()[:0], r.GetLimit()[:0], r.GetCost()[:0], r.GetExtra()[:0]
	r.AtUs, r.MaxDelayUs, r.Any, r.Replicas = r.GetAtUs()[:0], r.GetMaxDelayUs()[:0], r.GetAny()[:0], r.GetReplicas()[:0]
	r.Consistency, r.OnStoreFailure = r.GetConsistency()[:0], r.GetOnStoreFailure()[:0]
	r.LocalLimit, r.LocalKeys = r.GetLocalLimit()[:0], r.GetLocalKeys()[:0]
	r.GroupSizes, r.Shadow = r.GetGroupSizes()[:0], r.GetShadow()[:0]
	clear(r.GetRequestIds())
	clear(r.GetRequestBodies())
	r.RequestIds, r.RequestBodies = r.GetRequestIds()[:0], r.GetRequestBodies()[:0]
}

// add adds the claims and groups of a call.
func (m *columns) add(c *pending) {
	for i := range c.claims {
		m.addClaim(&c.claims[i])
	}
	r := &m.request
	for _, g := range c.groups {
		r.GroupSizes = append(r.GroupSizes, uint32(g.claims))
		r.Shadow = append(r.Shadow, g.shadow)
		m.plain = m.plain && g.claims == 1
		if g.once != nil {
			m.nameLast(g.once)
		}
	}
}

// nameLast gives the last group a request id. Batches without any have no columns for them.
func (m *columns) nameLast(o *stint.Once) {
	r := &m.request
	for others := len(r.GetGroupSizes()) - 1; len(r.GetRequestIds()) < others; {
		r.RequestIds, r.RequestBodies = append(r.RequestIds, nil), append(r.RequestBodies, nil)
	}
	r.RequestIds, r.RequestBodies = append(r.RequestIds, []byte(o.ID)), append(r.RequestBodies, o.Body[:])
}

func (m *columns) addClaim(c *stint.Claim) {
	m.keys = append(m.keys, c.Key)
	r := &m.request
	r.Limit = append(r.Limit, m.placeOf(c.Limit))
	r.Cost, r.Extra, r.AtUs = append(r.Cost, c.Cost), append(r.Extra, c.Extra), append(r.AtUs, c.At)
	r.MaxDelayUs = append(r.MaxDelayUs, maxDelayOf(c.MaxDelay)) // 0: no bound; below 0: no delay
	r.Any = append(r.Any, uint32(c.AnyOf))
	r.Consistency = append(r.Consistency, consistencyOf(c.Policy.Consistency))
	r.OnStoreFailure = append(r.OnStoreFailure, onFailureOf(c.Policy.OnFailure))
	r.Replicas = append(r.Replicas, uint32(c.Policy.Replicas))
	if l := c.Local; l != nil && l.Limit.Valid() {
		m.local = true
		r.LocalLimit, r.LocalKeys = append(r.LocalLimit, 1+m.placeOf(l.Limit)), append(r.LocalKeys, []byte(l.Key))
	} else {
		r.LocalLimit, r.LocalKeys = append(r.LocalLimit, 0), append(r.LocalKeys, nil)
	}
}

// maxDelayOf returns the bound in whole microseconds. A bound between 0 and 1 µs
// becomes −1, no delay, because 0 means no bound.
func maxDelayOf(d time.Duration) int64 {
	if us := d.Microseconds(); d == 0 || us > 0 {
		return us
	}
	return -1
}

// consistencyOf returns 0 for the default, which the message then omits; the other
// values count from 1.
func consistencyOf(c stint.Consistency) stintv1.Consistency {
	if c == stint.Strict {
		return 0
	}
	return stintv1.Consistency(c) + 1
}

func onFailureOf(f stint.OnFailure) stintv1.OnStoreFailure {
	if f == stint.FailOpen {
		return 0
	}
	return stintv1.OnStoreFailure(f) + 1
}

// placeOf returns the index of a limit in the message, and adds the limit when it is
// new.
func (m *columns) placeOf(l stint.Limit) uint32 {
	if l == m.last {
		return m.at
	}
	place, ok := m.places[l]
	if !ok {
		place = uint32(len(m.request.GetLimits()))
		m.places[l] = place
		m.request.Limits = append(m.request.Limits, m.limits.of(l))
	}
	m.last, m.at = l, place
	return place
}

// message returns the request. It is valid until the next reset.
func (m *columns) message() *stintv1.TakeBatchRequest {
	r := &m.request
	r.Keys, r.RawKeys = m.keysAsText()
	r.Limit = collapsed(r.GetLimit(), 0)
	r.Cost, r.Extra, r.AtUs = collapsed(r.GetCost(), 1), collapsed(r.GetExtra(), 0), collapsed(r.GetAtUs(), 0)
	r.MaxDelayUs = collapsed(r.GetMaxDelayUs(), 0)
	r.Any, r.Replicas = collapsed(r.GetAny(), 0), collapsed(r.GetReplicas(), 0)
	r.Consistency, r.OnStoreFailure = collapsed(r.GetConsistency(), 0), collapsed(r.GetOnStoreFailure(), 0)
	if !m.local {
		r.LocalLimit, r.LocalKeys = r.GetLocalLimit()[:0], r.GetLocalKeys()[:0]
	}
	for named := len(r.GetRequestIds()) > 0; named && len(r.GetRequestIds()) < len(r.GetGroupSizes()); {
		r.RequestIds, r.RequestBodies = append(r.RequestIds, nil), append(r.RequestBodies, nil)
	}
	if m.plain {
		r.GroupSizes = r.GetGroupSizes()[:0]
	}
	r.Shadow = collapsed(r.GetShadow(), false)
	return r
}

// keysAsText returns the keys as strings, or all of them as bytes when one is not
// valid UTF-8, which protobuf strings must be.
func (m *columns) keysAsText() (keys []string, raw [][]byte) {
	if !slices.ContainsFunc(m.keys, func(key string) bool { return !utf8.ValidString(key) }) {
		return m.keys, nil
	}
	for _, key := range m.keys {
		raw = append(raw, []byte(key))
	}
	return nil, raw
}

// collapsed returns the shortest form of a column. An empty column means the default
// for all, and one entry means the same value for all.
func collapsed[V comparable](column []V, otherwise V) []V {
	if len(column) == 0 {
		return column
	}
	first := column[0]
	for _, v := range column {
		if v != first {
			return column
		}
	}
	if first == otherwise {
		return column[:0]
	}
	return column[:1]
}

// maxLimitMessages bounds how many limits are cached.
const maxLimitMessages = 4096

// limitMessages caches limits as messages.
type limitMessages struct {
	*boundedcache.Cache[stint.Limit, *stintv1.Limit]
}

func newLimitMessages() limitMessages {
	return limitMessages{boundedcache.New[stint.Limit, *stintv1.Limit](maxLimitMessages)}
}

// of returns the message of a limit, which must not be changed.
func (m limitMessages) of(l stint.Limit) *stintv1.Limit {
	message, ok := m.Get(l)
	if !ok {
		message = limitMessage(l.Spec())
		m.Put(l, message)
	}
	return message
}

func limitMessage(s stint.Spec) *stintv1.Limit {
	return &stintv1.Limit{
		Namespace: s.Namespace, Rule: s.Rule, Name: s.Name, Algorithm: s.Algorithm.String(),
		Limit: s.Limit, WindowUs: int64(s.Window / time.Microsecond), Capacity: s.Capacity, RefillRate: s.RefillRate,
		Buckets: uint32(s.Buckets), Queue: s.Queue, MaxWaitUs: s.MaxWait.Microseconds(), Period: s.Period, Anchor: s.Anchor, UtcOffset: s.UTCOffset,
		FromCaller: s.FromCaller,
	}
}
