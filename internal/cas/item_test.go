package cas

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// Items are stored state: servers of users keep them.
func TestItemsStayTheSame(t *testing.T) {
	it := item{writers: []stamp{{2, 300}}}
	got := it.encode(stamp{1, 7}, []byte("states"))
	if text := hex.EncodeToString(got); text != "01"+"9379c8b1"+"02"+"000000000000000107"+"0000000000000002ac02"+"737461746573" {
		t.Errorf("the item is %s", text)
	}
	back, ok := decodeItem(got)
	if !ok || len(back.writers) != 2 || back.writers[0] != (stamp{1, 7}) || back.writers[1] != (stamp{2, 300}) || string(back.states) != "states" {
		t.Errorf("%+v %v", back, ok)
	}
	for i := range got {
		broken := bytes.Clone(got)
		broken[i] ^= 0x40
		if _, ok := decodeItem(broken); ok {
			t.Errorf("an item with a wrong byte %d is read", i)
		}
	}
}

func TestItemsRememberTheLastWriters(t *testing.T) {
	var value []byte
	for i := range uint64(40) {
		it, ok := decodeItem(value)
		if !ok {
			t.Fatal(i)
		}
		value = it.encode(stamp{i % 20, i}, nil)
		if len(value) > maxHead {
			t.Fatalf("a header of %d bytes", len(value))
		}
	}
	it, _ := decodeItem(value)
	if len(it.writers) != maxWriters || it.writers[0] != (stamp{19, 39}) || it.writers[15] != (stamp{4, 24}) {
		t.Errorf("%+v", it.writers)
	}
}

func TestFateOfAWrite(t *testing.T) {
	mine, full := stamp{1, 7}, make([]stamp, maxWriters)
	for i := range full {
		full[i] = stamp{uint64(100 + i), 1}
	}
	for name, c := range map[string]struct {
		writers      []stamp
		old, version uint64
		want         fate
	}{
		"it is there":                              {[]stamp{{1, 7}}, 1, 2, made},
		"it is there, and another came after":      {[]stamp{{2, 1}, {1, 7}}, 1, 3, made},
		"nothing was written":                      {[]stamp{{1, 6}}, 1, 1, stillDue},
		"there was no item and there is none":      {nil, 0, 0, stillDue},
		"another came first":                       {[]stamp{{2, 1}, {1, 6}}, 1, 2, notMade},
		"another was the first to write":           {[]stamp{{2, 1}}, 0, 2, notMade},
		"so many wrote that the stamp may be gone": {full, 1, 2, unclear},
		"a later write of the same writer":         {[]stamp{{1, 8}}, 1, 2, unclear},
	} {
		it := item{writers: c.writers}
		if got := it.fateOf(mine, c.old, c.version); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func FuzzDecodeItem(f *testing.F) {
	var it item
	f.Add(it.encode(stamp{1, 7}, []byte("states")))
	f.Fuzz(func(t *testing.T, value []byte) {
		it, ok := decodeItem(value)
		if !ok {
			return
		}
		if again, ok := decodeItem(it.encode(stamp{1, 2}, it.states)); !ok || !bytes.Equal(again.states, it.states) {
			t.Errorf("%x is read, and not what was made of it", value)
		}
	})
}
