package redisstore

import "testing"

func TestSlotsAreThoseOfTheSpecification(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789": 0x31c3, "": 0, "foo": 12182, "{foo}bar": 12182, "a{foo}b{bar}": 12182, "{}foo": slotOf("{}foo"), "foo{": slotOf("foo{"),
	} {
		if got := slotOf(key); got != want {
			t.Errorf("%q: %d; want %d", key, got, want)
		}
	}
	if slotOf("{}foo") == slotOf("") {
		t.Error("an empty tag counts as a tag")
	}
}
