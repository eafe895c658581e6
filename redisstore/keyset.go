package redisstore

import "hash/maphash"

// keySet is the distinct keys of a batch, by number. The zero value is ready,
// after reset.
type keySet struct {
	seed  maphash.Seed
	text  []byte
	ends  []int   // of each key in text
	table []int32 // open addressing: a key's number plus 1, 0 for none
}

func (k *keySet) reset() {
	if k.table == nil {
		k.seed, k.table = maphash.MakeSeed(), make([]int32, 128)
	}
	clear(k.table)
	k.text, k.ends = k.text[:0], k.ends[:0]
}

func (k *keySet) start(i int) int {
	if i == 0 {
		return 0
	}
	return k.ends[i-1]
}

func (k *keySet) key(i int) []byte { return k.text[k.start(i):k.ends[i]] }

// add takes what was appended to text since the last key as another. It
// returns its number, and whether it is new.
func (k *keySet) add() (number int, fresh bool) {
	from := k.start(len(k.ends))
	key := k.text[from:]
	at := k.find(key)
	if number = int(k.table[at]) - 1; number >= 0 {
		k.text = k.text[:from]
		return number, false
	}
	k.ends = append(k.ends, len(k.text))
	k.table[at] = int32(len(k.ends))
	if 2*len(k.ends) > len(k.table) {
		k.grow()
	}
	return len(k.ends) - 1, true
}

// find returns the place in the table that has the key, or that it belongs to.
func (k *keySet) find(key []byte) int {
	mask := len(k.table) - 1
	at := int(maphash.Bytes(k.seed, key)) & mask
	for k.table[at] != 0 && string(k.key(int(k.table[at])-1)) != string(key) {
		at = (at + 1) & mask
	}
	return at
}

func (k *keySet) grow() {
	k.table = make([]int32, 2*len(k.table))
	for i := range k.ends {
		k.table[k.find(k.key(i))] = int32(i + 1)
	}
}
