package decisionlog

import "testing"

// A device that is full stores nothing.
func TestWritesToAFullDeviceFail(t *testing.T) {
	f, err := Open(FileOptions{Path: "/dev/full", MaxSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.WriteLines([]byte("1\n2\n")); n != 0 || err == nil {
		t.Error(n, err)
	}
}
