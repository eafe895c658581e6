package replay

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stintdev/stint"
)

// newKeys returns JSON lines that each have a new key, a hundred a second.
type newKeys struct {
	left, next int
	line       []byte
}

func (k *newKeys) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(k.line) == 0 {
			if k.left == 0 {
				return n, io.EOF
			}
			k.left--
			k.line = fmt.Appendf(k.line[:0], `{"t_us":%d,"key":"user:%d"}`+"\n", 1_431_857_103_000_001+int64(k.next)*10_000, k.next)
			k.next++
		}
		c := copy(p[n:], k.line)
		n, k.line = n+c, k.line[c:]
	}
	return n, nil
}

// resident returns the resident memory of the process.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc/self/statm: ", err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// peak returns the resident memory when the Go heap is at its largest before a
// collection. On a busy machine the collection comes late, which is not caused
// by the code under test.
func peak(t *testing.T) int {
	t.Helper()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return resident(t) - int(m.HeapSys-m.HeapReleased) + int(m.NextGC)
}

// The table of states holds 43 to 46 bytes a key; a replay of many keys needs
// at most 64 in all, whichever step of growth its parts are at. Beside that are the
// window and the buffers, whose size does not depend on the keys.
func TestMemoryPerKey(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, of which the race detector needs several times as much")
	}
	limit, err := stint.ParseLimit("10/m")
	if err != nil {
		t.Fatal(err)
	}
	const keys, first, fixed = 2_000_000, 1_000_000, 12 << 20
	debug.FreeOSMemory()
	before, worst := peak(t), 0.0
	progress := func(p Progress) {
		if p.Events >= first {
			worst = max(worst, float64(peak(t)-before-fixed)/float64(p.Events))
		}
	}
	s, err := Run(t.Context(), Options{Limit: limit, By: "key", Reorder: DefaultReorder, Progress: progress}, Input{Name: "keys", Reader: &newKeys{left: keys}})
	if err != nil || s.Keys != keys {
		t.Fatal(err, s.Keys)
	}
	t.Logf("%.1f bytes a key at most, from %d to %d keys", worst, first, keys)
	if worst > 64 {
		t.Errorf("%.1f bytes a key, want at most 64", worst)
	}
}
