package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

// takeSingle sends a check in a separate round trip. The channel receives its error.
func (b *heldBatcher) takeSingle(key string) chan error {
	end := make(chan error, 1)
	go func() {
		if !b.TryAcquire() {
			end <- errNoPlace
			return
		}
		_, err := b.batcher.takeSingle(b.t.Context(), &stint.Claim{Key: key, Limit: tenASecond(), Cost: 1})
		end <- err
	}()
	synctest.Wait()
	return end
}

var errNoPlace = errors.New("no place is free")

func TestSinglesHandTheirPlaceToQueuedChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHeldBatcher(t)
		first, second := b.takeSingle("first"), b.takeSingle("second")
		b.wantKeys(1, 1)
		if err := <-b.takeSingle("third"); !errors.Is(err, errNoPlace) {
			t.Errorf("a third round trip: %v", err)
		}
		var ends []chan error
		for i := range 10 {
			ends = append(ends, b.take(t.Context(), fmt.Sprint("queued", i)))
		}
		b.answers <- struct{}{}
		b.wantKeys(1, 1, 10)
		b.answerAll()
		for _, end := range append(ends, first, second) {
			if err := <-end; !errors.Is(err, errHeld) {
				t.Error(err)
			}
		}
		if n := b.InFlight(); n != 0 {
			t.Errorf("%d places are taken", n)
		}
	})
}

// TestRepliesThatAreNotTheScriptsAreRefused changes a good reply and decodes it as the
// reply to a single and to a batch.
func TestRepliesThatAreNotTheScriptsAreRefused(t *testing.T) {
	good, denied := singleReply(1_000_000, 1, nil), singleReply(1_000_000, 0, nil)
	for _, c := range []struct {
		name, data string
		kind       stint.Kind
	}{
		{"the script's", good, ""},
		{"nothing", "", "garbled"},
		{"cut in the head", good[:5], "garbled"},
		{"cut before the state", good[:answerHead], "garbled"},
		{"a state cut short", singleReply(1_000_000, 1, make([]byte, 11))[:answerHead+5], "garbled"},
		{"a time before the epoch", singleReply(-1, 1, nil), "garbled"},
		{"denied by the script alone", denied, "garbled"},
		{"allowed twice", singleReply(1_000_000, 2, nil), "garbled"},
		{"denied and allowed twice", singleReply(1_000_000, 2, appendBucket(1_000_000, 0, 0)), "garbled"},
		{"a state longer than its announced length", good + "x", "garbled"},
		{"a state of no bucket", singleReply(1_000_000, 0, []byte("nothing")), "corrupt"},
		{"reported as corrupt", denied[:answerHead] + "\xff", "corrupt"},
		{"reported as of another type", denied[:answerHead] + "\xfe", "wrongtype"},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := stint.Claim{Key: "k", Limit: tenASecond(), Cost: 1}
			o := single{encoding: encodingOf(t, Options{})}
			o.encode(&claim)
			o.replies[0].data = c.data
			d, err := o.decode(&claim)
			checkReply(t, c.kind, d, err)

			b := o.encoding.newBatch()
			b.add([]stint.Claim{claim}, 0)
			b.invocation()
			out, errs := make([]stint.Decision, len(b.lines)), make([]error, len(b.groups))
			b.decode(c.data, out, errs)
			checkReply(t, c.kind, out[0], errs[0])
		})
	}
}

func checkReply(t *testing.T, kind stint.Kind, d stint.Decision, err error) {
	t.Helper()
	if kind != "" {
		wantError(t, err, stint.CodeInternal, kind)
	} else if err != nil || !d.Allowed || d.Remaining != 9 {
		t.Error(d, err)
	}
}

// singleReply returns a reply for one key.
func singleReply(now int64, allowed uint32, state []byte) string {
	reply := binary.BigEndian.AppendUint32(appendInt7(nil, now), allowed)
	return string(append(append(reply, byte(len(state))), state...))
}

// TestSingleEncodesAsABatchOfOne reuses one single for claims on several limits and of
// several costs, by the server's clock and by the caller's.
func TestSingleEncodesAsABatchOfOne(t *testing.T) {
	now := int64(0)
	limits := []stint.Limit{limitOf(t, stint.PerMinute(100)), limitOf(t, stint.PerMinute(101)), limitOf(t, stint.PerDay(100))}
	for _, clock := range []func() time.Time{nil, func() time.Time { return time.UnixMicro(now) }} {
		o := single{encoding: encodingOf(t, Options{Clock: clock})}
		for now = range 20 {
			claim := stint.Claim{Key: "k", Limit: limits[now/2%3], Cost: 1 + now/3%2} // the limit and the cost change in turns
			o.encode(&claim)
			b := o.encoding.newBatch()
			b.add([]stint.Claim{claim}, 0)
			want := b.invocation()
			if got := o.calls[0]; got.script != want.script || got.keys[0] != want.keys[0] || got.args[0] != want.args[0] {
				t.Fatalf("claim %d: %q %q; want %q %q", now, got.keys, got.args, want.keys, want.args)
			}
		}
	}
}

// A limit that was compiled again, as all are when rules are read again, is encoded
// once like the first.
func TestSingleEncodesALimitOnce(t *testing.T) {
	o := single{encoding: encodingOf(t, Options{})}
	for range 2 {
		claim := stint.Claim{Key: "k", Limit: limitOf(t, stint.PerMinute(100)), Cost: 1}
		o.encode(&claim)
		if n := testing.AllocsPerRun(100, func() { o.encode(&claim) }); n > 1 {
			t.Errorf("%v allocations, want that of the key alone", n)
		}
	}
}
