package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// severalServers returns a decision log of two servers, each with a caller. The first server logs
// nothing in the minutes 5 to 24, and then says so. The lines of the other one between are many blocks.
func severalServers() string {
	var log strings.Builder
	for m := range 30 {
		sample := inSample
		if m == 24 {
			sample += fmt.Sprintf(`,"dropped_before":9,"dropped_since_us":%d`, 5*minute)
		}
		if m < 5 || m >= 24 {
			log.WriteString(decisionLine(m*minute, "a", "orders", true, sample))
		}
		for i := range linesOfOther {
			log.WriteString(decisionLine(m*minute+1+i, "b", "orders", true, inSample))
		}
	}
	return log.String()
}

const linesOfOther = 300 // a minute

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// All minutes of a gap are left out, however late the line that shows it comes.
func TestGapsOfFilesAreKnownBefore(t *testing.T) {
	for name, text := range map[string]string{"plain": severalServers(), "gzip": zipped(t, severalServers())} {
		var minutes []int64
		r, err := ReadKeys(t.Context(), Options{By: "id"}, func(e KeyedEvent) error {
			minutes = append(minutes, e.Time/minute)
			return nil
		}, inputsOf(text)...)
		minutes = slices.Compact(minutes)
		if want := []int64{0, 1, 2, 3, 4, 25, 26, 27, 28, 29}; err != nil || !slices.Equal(minutes, want) || r.Events != 10+10*linesOfOther {
			t.Errorf("%s: %v, %d events of the minutes %v", name, err, r.Events, minutes)
		}
		if l := r.DecisionLog; l.Gaps != 20 || l.EventsInGaps != 1+20*linesOfOther || l.Dropped != 9 || l.Lines != 11+30*linesOfOther {
			t.Errorf("%s: %+v", name, l)
		}
		_, s := replayed(t, Options{Limit: twoASecond(t).Limit, By: "id"}, inputsOf(text)...)
		if s.DecisionLog.Excluded != 1+20*linesOfOther || s.Events != 11+30*linesOfOther || s.DecisionLog.Gaps != 20 {
			t.Errorf("%s: %d of %d events are excluded", name, s.DecisionLog.Excluded, s.Events)
		}
	}
}

// An input that cannot be read twice is read once.
func TestGapsOfPipesShowAsTheyAreRead(t *testing.T) {
	from, to := io.Pipe()
	go func() {
		_, err := io.WriteString(to, severalServers())
		to.CloseWithError(err)
	}()
	r, err := ReadKeys(t.Context(), Options{By: "id"}, func(KeyedEvent) error { return nil }, Input{Name: "pipe", Reader: from})
	if err != nil || r.DecisionLog.Lines != 11+30*linesOfOther || r.DecisionLog.Gaps != 20 || r.Events+r.DecisionLog.EventsInGaps != 11+30*linesOfOther {
		t.Errorf("%v: %+v", err, r)
	}
}

// A part of the traffic has only the gaps within it.
func TestGapsAreOfTheDecidedPart(t *testing.T) {
	o := Options{By: "id", Since: time.UnixMicro(10 * minute), Until: time.UnixMicro(27 * minute)}
	r, err := ReadKeys(t.Context(), o, func(KeyedEvent) error { return nil }, inputsOf(severalServers())...)
	if err != nil || r.DecisionLog.Gaps != 15 || r.Events != 2+2*linesOfOther {
		t.Errorf("%v: %+v, %+v", err, r, r.DecisionLog)
	}
}
