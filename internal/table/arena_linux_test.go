package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
)

// kilobytes reads a size that the kernel reports for this process.
func kilobytes(t *testing.T, name string) (n int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, line, _ := bytes.Cut(status, []byte(name+":"))
	if _, err := fmt.Sscan(string(line), &n); err != nil {
		t.Skip(err)
	}
	return n
}

func TestDroppedTableGivesItsAddressesBack(t *testing.T) {
	before := kilobytes(t, "VmSize")
	for range 10 {
		New(Options{KeepAll: true, Judge: shares{}}).insert(ID{Hash: 1}, State{}, 0)
	}
	const one = keepShards * keepSlots * slotSize >> 10
	for range 100 {
		runtime.GC()
		if kilobytes(t, "VmSize") < before+one {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("ten tables that were dropped hold %d GB", (kilobytes(t, "VmSize")-before)>>20)
}

func TestClearGivesMemoryBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds with the race detector, for which -short is")
	}
	table := New(Options{Bound: 1_000_000, Judge: shares{}})
	before := kilobytes(t, "VmRSS")
	r := rand.New(rand.NewPCG(1, 2))
	for range 900_000 {
		table.insert(randomID(r), State{Lo: 50}, 0)
	}
	if grown := kilobytes(t, "VmRSS") - before; grown < 30_000 {
		t.Fatalf("900,000 states took %d kB", grown)
	}
	table.Clear()
	if left := kilobytes(t, "VmRSS") - before; left > 20_000 {
		t.Errorf("%d kB are still resident", left)
	}
}
