package decisionlog

import "testing"

// The hashes of the first three texts are those of the reference implementation in C. Those of
// the others are from CPython, whose hash of bytes is SipHash-1-3.
func TestSipHashIsThatOfTheReference(t *testing.T) {
	counted := sipKey{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	for _, test := range []struct {
		key  sipKey
		text string
		want uint64
	}{
		{counted, "", 0xabac0158050fc4dc},
		{counted, "\x00", 0xc9f49bf37d57ca93},
		{counted, "\x00\x01\x02\x03\x04\x05\x06", 0xd3927d989bb11140},
		{sipKey{}, "a", 0x407448d2b89b1813},
		{sipKey{}, "12345678", 0x3489982430560a87},
		{sipKey{}, "sk_live_0123456789", 0x92a482709d70bd1f},
	} {
		if got := test.key.sum(test.text); got != test.want {
			t.Errorf("%q: %#x, want %#x", test.text, got, test.want)
		}
	}
}
