package remotestore

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// columns writes claims as the columns of a TakeBatchRequest: one slice for each field
// of a claim. It is reused from batch to batch.
type columns struct {
	limits *limitMessages
	places map[stint.Limit]uint32 // index in request.Limits
	last   stint.Limit            // the limit of the last lookup; most neighbors share one
	at     uint32                 // the index of last

	keys        []string
	limit       []uint32
	cost        []int64
	extra, time []int64
	maxDelay    []int64 // µs; 0: no bound; below 0: no delay
	anyOf       []uint32
	consistency []stintv1.Consistency
	onFailure   []stintv1.OnStoreFailure
	replicas    []uint32
	localLimit  []uint32
	localKeys   [][]byte
	sizes       []uint32
	shadow      []bool
	plain       bool // every group has one claim
	local       bool // some claim has a local limit
	request     stintv1.TakeBatchRequest
}

func newColumns(limits *limitMessages) columns {
	return columns{limits: limits, places: map[stint.Limit]uint32{}, plain: true}
}

// reset empties the columns.
func (m *columns) reset() {
	clear(m.places)
	clear(m.keys)
	clear(m.localKeys)
	m.last, m.at, m.plain, m.local = stint.Limit{}, 0, true, false
	m.keys, m.limit, m.cost, m.extra, m.time = m.keys[:0], m.limit[:0], m.cost[:0], m.extra[:0], m.time[:0]
	m.maxDelay = m.maxDelay[:0]
	m.anyOf, m.consistency, m.onFailure, m.replicas = m.anyOf[:0], m.consistency[:0], m.onFailure[:0], m.replicas[:0]
	m.localLimit, m.localKeys, m.sizes, m.shadow = m.localLimit[:0], m.localKeys[:0], m.sizes[:0], m.shadow[:0]
	m.request.Limits = m.request.GetLimits()[:0]
}

// add adds the claims and groups of a call.
func (m *columns) add(c *pending) {
	for i := range c.claims {
		m.addClaim(&c.claims[i])
	}
	for _, g := range c.groups {
		m.sizes = append(m.sizes, uint32(g.claims))
		m.shadow = append(m.shadow, g.shadow)
		m.plain = m.plain && g.claims == 1
	}
}

func (m *columns) addClaim(c *stint.Claim) {
	m.keys = append(m.keys, c.Key)
	m.limit = append(m.limit, m.placeOf(c.Limit))
	m.cost, m.extra, m.time = append(m.cost, c.Cost), append(m.extra, c.Extra), append(m.time, c.At)
	m.maxDelay = append(m.maxDelay, maxDelayOf(c.MaxDelay))
	m.anyOf = append(m.anyOf, uint32(c.Any))
	m.consistency = append(m.consistency, consistencyOf(c.Policy.Consistency))
	m.onFailure = append(m.onFailure, onFailureOf(c.Policy.OnFailure))
	m.replicas = append(m.replicas, uint32(c.Policy.Replicas))
	m.addLocal(c.Local)
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

func (m *columns) addLocal(l *stint.Local) {
	if l == nil || !l.Limit.Valid() {
		m.localLimit, m.localKeys = append(m.localLimit, 0), append(m.localKeys, nil)
		return
	}
	m.local = true
	m.localLimit, m.localKeys = append(m.localLimit, 1+m.placeOf(l.Limit)), append(m.localKeys, []byte(l.Key))
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
	r.Limit = collapsed(m.limit, 0)
	r.Cost, r.Extra, r.AtUs = collapsed(m.cost, 1), collapsed(m.extra, 0), collapsed(m.time, 0)
	r.MaxDelayUs = collapsed(m.maxDelay, 0)
	r.Any, r.Replicas = collapsed(m.anyOf, 0), collapsed(m.replicas, 0)
	r.Consistency, r.OnStoreFailure = collapsed(m.consistency, 0), collapsed(m.onFailure, 0)
	r.LocalLimit, r.LocalKeys, r.GroupSizes = nil, nil, nil
	if m.local {
		r.LocalLimit, r.LocalKeys = m.localLimit, m.localKeys
	}
	if !m.plain {
		r.GroupSizes = m.sizes
	}
	r.Shadow = collapsed(m.shadow, false)
	return r
}

// keysAsText returns the keys as strings, or all of them as bytes when one is not
// valid UTF-8, which protobuf strings must be.
func (m *columns) keysAsText() (keys []string, raw [][]byte) {
	for _, key := range m.keys {
		if !utf8.ValidString(key) {
			return nil, m.rawKeys()
		}
	}
	return m.keys, nil
}

func (m *columns) rawKeys() [][]byte {
	raw := make([][]byte, len(m.keys))
	for i, key := range m.keys {
		raw[i] = []byte(key)
	}
	return raw
}

// collapsed returns the shortest form of a column. An empty column means the default
// for all, and one entry means the same value for all.
func collapsed[V comparable](column []V, otherwise V) []V {
	if len(column) == 0 {
		return nil
	}
	first := column[0]
	for _, v := range column {
		if v != first {
			return column
		}
	}
	if first == otherwise {
		return nil
	}
	return column[:1]
}

// maxLimitMessages bounds how many limits are cached.
const maxLimitMessages = 4096

// limitMessages caches limits as messages. Its zero value is ready for use.
type limitMessages struct {
	mu  sync.Mutex
	all map[stint.Limit]*stintv1.Limit
}

// of returns the message of a limit, which must not be changed. A full cache is
// emptied, which drops the limits that are no longer used.
func (m *limitMessages) of(l stint.Limit) *stintv1.Limit {
	m.mu.Lock()
	defer m.mu.Unlock()
	message := m.all[l]
	if message == nil {
		if m.all == nil || len(m.all) >= maxLimitMessages {
			m.all = map[stint.Limit]*stintv1.Limit{}
		}
		message = limitMessage(l.Spec())
		m.all[l] = message
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
