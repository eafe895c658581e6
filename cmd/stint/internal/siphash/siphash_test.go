package siphash

import "testing"

// The hashes of the first three texts are those of the reference implementation in C. Those of
// the others are from CPython, whose hash of bytes is SipHash-1-3.
func TestHashesAreThoseOfTheReference(t *testing.T) {
	counted := KeyOf([16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	for _, test := range []struct {
		key  Key
		text string
		want uint64
	}{
		{counted, "", 0xabac0158050fc4dc},
		{counted, "\x00", 0xc9f49bf37d57ca93},
		{counted, "\x00\x01\x02\x03\x04\x05\x06", 0xd3927d989bb11140},
		{Key{}, "a", 0x407448d2b89b1813},
		{Key{}, "12345678", 0x3489982430560a87},
		{Key{}, "sk_live_0123456789", 0x92a482709d70bd1f},
	} {
		if got := test.key.Sum(test.text); got != test.want {
			t.Errorf("%q: %#x, want %#x", test.text, got, test.want)
		}
	}
}
