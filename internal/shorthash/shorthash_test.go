package shorthash

import "testing"

// The hashes are in the keys of live stores, so they must never change.
func TestHashesStayTheSame(t *testing.T) {
	for _, c := range []struct{ rule, name, shape, want string }{
		{"r5644568", "token_bucket:1s", "token_bucket", "ZkuURLG"},
		{"r2747665", "token_bucket:1s", "token_bucket", "ZkuURLG"},
		{"orders", "token_bucket:1m", "token_bucket", "Kv2B7Fw"},
		{"", "", "", "Y8q46SH"},
	} {
		if got := Of(c.rule, c.name, c.shape); got != c.want {
			t.Errorf("Of(%q, %q, %q) = %s, want %s", c.rule, c.name, c.shape, got, c.want)
		}
		if got := Long(c.rule, c.name, c.shape); len(got) != LongLength || got[:Length] != c.want {
			t.Errorf("Long(%q, %q, %q) = %s, want %d characters that begin with %s", c.rule, c.name, c.shape, got, LongLength, c.want)
		}
	}
}

func TestPartsDoNotRunTogether(t *testing.T) {
	hashes := map[string]bool{}
	for _, parts := range [][3]string{{"ab", "c", ""}, {"a", "bc", ""}, {"", "ab", "c"}, {"abc", "", ""}, {"a1:b", "", ""}, {"a", "b", ""}} {
		hashes[Of(parts[0], parts[1], parts[2])] = true
	}
	if len(hashes) != 6 {
		t.Errorf("%d hashes of 6 triples", len(hashes))
	}
}
