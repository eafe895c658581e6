package impact

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/siphash"
)

// A limit counts the requests of a caller on all nodes, so the sample of one node does not tell
// whether new rules would deny the caller. The samples of several nodes do, if they have the same
// callers. The nodes therefore share a secret, from which the key of the hash that selects callers
// derives: a caller that one node keeps is kept by every node whose mask is not greater. Under the
// greatest mask of all nodes, the merged sample has every request of each of its callers, and is
// replayed as that of one node.
//
// New rules may read any attribute, so the replay needs the values themselves: no hash of an API
// key tells whether it has an override. The operator who carries the samples from node to node
// must not see them. A sample is therefore sealed under a second key that is derived from the
// secret: only nodes can make and open sealed samples.
//
// A sample that somebody keeps and brings again later would make the merged sample smaller and older
// than it is. A sealed sample therefore says when it was sealed, and is refused after maxApart. The
// same check refuses the samples of nodes whose clocks differ much: their requests would be replayed
// at wrong times. The merged sample ends where the first of the samples was sealed.
//
// The bounds: a sealed sample has at most [MaxSealed] bytes, which the receiver reads from a body
// of bounded size, and a merged sample has at most maxMerged events. Both keep fewer callers
// rather than fewer requests of each, and less time if a few callers make most of the requests.

// MaxSealed is the greatest size of a sealed sample, in bytes. A full sample of usual requests has
// about 4 MB.
const MaxSealed = 8 << 20

// maxMerged bounds the events of a merged sample, and so the time and the memory of its replay.
const maxMerged = 4 * maxEvents

// maxApart is the greatest difference between the time of a sealed sample and the clock of the node
// that opens it.
const maxApart = time.Minute

// ErrAlone means that a node shares no secret with others.
var ErrAlone = errors.New("this node shares no secret with other nodes: its rules are in files, or the source of the rules has given it none (keep the rules in Redis or PostgreSQL, look into the log of the node, or ask one server at a time)")

// secrets are the keys of a sample.
type secrets struct {
	callers siphash.Key
	seal    cipher.AEAD // nil: no other node has the key
}

// newSecrets derives the keys from a secret of any length.
func newSecrets(secret []byte) *secrets {
	derive := func(purpose string) []byte {
		mac := hmac.New(sha256.New, secret)
		_, _ = io.WriteString(mac, purpose) // it never fails
		return mac.Sum(nil)
	}
	k := &secrets{callers: siphash.KeyOf([16]byte(derive("stint: callers of samples")))}
	if block, err := aes.NewCipher(derive("stint: sealed samples")); err == nil {
		k.seal, _ = cipher.NewGCMWithRandomNonce(block) // the block size is right
	}
	return k
}

// ownSecrets returns random keys, which no other node has.
func ownSecrets() *secrets {
	random := make([]byte, sha256.Size)
	_, _ = rand.Read(random) // it never fails
	return &secrets{callers: newSecrets(random).callers}
}

// Join makes the sample that of a node with this secret. It begins anew, because another secret
// selects other callers.
func (s *Sample) Join(secret string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	if s.events.count > 0 {
		s.began = now
	}
	s.secrets.Store(newSecrets([]byte(secret)))
	s.mask.Store(0)
	s.after, s.seen, s.events, s.room = 0, tally{}, blocks{}, burst
	s.last, s.roomy = now, now
}

// Part is the sample of another node.
type Part struct {
	node uint64
	batch
}

// batch is a sample that is ready to be replayed.
type batch struct {
	events []event
	mask   uint64 // that selects the callers
	seen   uint64 // approximate number of requests
	since  int64  // requests before this time may be missing, in µs; 0: none
	until  int64  // requests from this time on may be missing, in µs
}

// sealedPart is the encoded form of a Part.
type sealedPart struct {
	Node, Mask, Seen uint64
	Since, Until     int64
	Names            [][]string // the lists of names that events have
	Events           []sealedEvent
}

type sealedEvent struct {
	Time, Cost int64
	Hash       uint64
	Allowed    bool
	Names      int // index
	Values     []string
}

// A sealed sample begins with the name and the number of its format, which are authenticated with
// the content. Every change of sealedPart or of its meaning needs another number.
const (
	sealedAny = "stint sample "
	sealedAs  = sealedAny + "1\n"
)

// Bounds of the encoded form, in bytes.
const (
	eventSize = 48 // without its values
	valueSize = 4  // beside its text
	fixedSize = 16 << 10
)

// Seal returns the sample for other nodes, in at most size bytes; a larger sample loses callers.
// The error is [ErrAlone] if no other node could open it.
func (s *Sample) Seal(size int) ([]byte, error) {
	b, k := s.recent()
	if k.seal == nil {
		return nil, ErrAlone
	}
	for b.size() > size && len(b.events) > 0 {
		b.halve()
	}
	p := sealedPart{Node: s.node, Mask: b.mask, Seen: b.seen, Since: b.since, Until: b.until, Events: make([]sealedEvent, len(b.events))}
	for i := range b.events {
		e := &b.events[i]
		at := slices.IndexFunc(p.Names, func(names []string) bool { return slices.Equal(names, e.names) })
		if at < 0 {
			at, p.Names = len(p.Names), append(p.Names, e.names)
		}
		p.Events[i] = sealedEvent{Time: e.t, Cost: e.cost, Hash: e.hash, Allowed: e.allowed, Names: at, Values: e.values}
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(&p); err != nil {
		return nil, err
	}
	return k.seal.Seal([]byte(sealedAs), nil, text.Bytes(), []byte(sealedAs)), nil //nolint:gosec // this AEAD draws the nonce itself
}

// Open opens the sealed samples of other nodes. An error says which one is of no use.
func (s *Sample) Open(sealed [][]byte) ([]*Part, error) {
	k := s.secrets.Load()
	if k.seal == nil && len(sealed) > 0 {
		return nil, ErrAlone
	}
	nodes := map[uint64]bool{s.node: true}
	parts := make([]*Part, 0, len(sealed))
	for i, one := range sealed {
		p, err := s.open(k, one)
		if err == nil && nodes[p.node] {
			err = errors.New("is of a node whose requests count already (give each node once)")
		}
		if err != nil {
			return nil, fmt.Errorf("sample %d %w", i+1, err)
		}
		nodes[p.node] = true
		parts = append(parts, p)
	}
	return parts, nil
}

func (s *Sample) open(k *secrets, sealed []byte) (*Part, error) {
	content, ok := bytes.CutPrefix(sealed, []byte(sealedAs))
	switch {
	case !ok && bytes.HasPrefix(sealed, []byte(sealedAny)):
		return nil, errOtherVersion
	case !ok:
		return nil, errors.New("is no sealed sample (copy it from GET /v1/sample of another node)")
	}
	text, err := k.seal.Open(nil, nil, content, []byte(sealedAs))
	if err != nil {
		return nil, errors.New("is of a node with which this node shares no secret (ask nodes that have their rules from the same source)")
	}
	p, err := decodePart(text)
	if err != nil {
		return nil, err
	}
	_, until := s.window()
	if apart := time.Duration(until-p.until) * time.Microsecond; apart.Abs() > maxApart {
		const text = "was sealed %v %s the time of this node, which is more than %v (get it again; if that does not help, the clocks of the nodes differ: synchronize them)"
		return nil, fmt.Errorf(text, apart.Abs().Round(time.Second), beforeOrAfter(apart), maxApart)
	}
	return p, nil
}

var errOtherVersion = errors.New("is of another version of Stint (run the same version on all nodes)")

func beforeOrAfter(passed time.Duration) string {
	if passed < 0 {
		return "after"
	}
	return "before"
}

func decodePart(text []byte) (*Part, error) {
	var p sealedPart
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&p); err != nil {
		return nil, errOtherVersion
	}
	part := &Part{node: p.Node, batch: batch{mask: p.Mask, seen: p.Seen, since: p.Since, until: p.Until, events: make([]event, len(p.Events))}}
	for i := range p.Events {
		e := &p.Events[i]
		if e.Names < 0 || e.Names >= len(p.Names) || len(e.Values) != len(p.Names[e.Names]) || e.Cost <= 0 {
			return nil, errOtherVersion
		}
		part.events[i] = event{t: e.Time, cost: e.Cost, hash: e.Hash, allowed: e.Allowed, names: p.Names[e.Names], values: e.Values}
	}
	return part, nil
}

// merged returns the sample of this node together with those of others, in order of time.
func (s *Sample) merged(others []*Part) batch {
	b, _ := s.recent()
	since, _ := s.window()
	b.since = max(b.since, since)
	for _, p := range others {
		b.events, b.mask = append(b.events, p.events...), max(b.mask, p.mask)
		b.seen, b.since, b.until = b.seen+p.seen, max(b.since, p.since), min(b.until, p.until)
	}
	b.filter(func(e *event) bool { return e.t >= b.since && e.t < b.until })
	slices.SortStableFunc(b.events, func(a, b event) int { return cmp.Compare(a.t, b.t) })
	for len(b.events) > maxMerged {
		b.halve()
	}
	return b
}

// filter keeps the events of the callers that the mask selects and for which keep returns true.
func (b *batch) filter(keep func(*event) bool) {
	b.events = slices.DeleteFunc(b.events, func(e event) bool { return e.hash&b.mask != 0 || !keep(&e) })
}

// hashes returns the hashes of the events.
func (b *batch) hashes() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range b.events {
			if !yield(b.events[i].hash) {
				return
			}
		}
	}
}

// halve keeps about half of the events: those of half of the callers or, if a few callers make most
// of the requests, those of the newer half of the time.
func (b *batch) halve() {
	if few(b.hashes(), b.mask) && len(b.events) > 1 {
		times := make([]int64, len(b.events))
		for i := range b.events {
			times[i] = b.events[i].t
		}
		slices.Sort(times)
		b.since = max(times[len(times)/2], times[0]+1)
	} else {
		b.mask = b.mask<<1 | 1
	}
	b.filter(func(e *event) bool { return e.t >= b.since })
}

// size returns a bound of the encoded size of the sample.
func (b *batch) size() int {
	n := fixedSize
	var last []string
	for i := range b.events {
		e := &b.events[i]
		n += eventSize + valueSize*len(e.values)
		for _, value := range e.values {
			n += len(value)
		}
		if len(e.names) > 0 && (len(last) != len(e.names) || &last[0] != &e.names[0]) {
			last = e.names
			for _, name := range last {
				n += len(name) + valueSize
			}
		}
	}
	return n
}

// newNode returns a random id of this process.
func newNode() uint64 {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	return binary.LittleEndian.Uint64(id[:])
}
