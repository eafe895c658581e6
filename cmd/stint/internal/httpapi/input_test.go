package httpapi

import (
	"fmt"
	"strings"
	"testing"
)

func TestLimitCacheStaysWithinItsBound(t *testing.T) {
	c := newLimitCache()
	for i := range maxCachedLimits + 10 {
		if _, err := c.get(fmt.Appendf(nil, `"%d/s"`, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if c.Len() != maxCachedLimits {
		t.Errorf("%d limits are kept, want %d", c.Len(), maxCachedLimits)
	}
	one, _ := c.get([]byte(`"7/h"`))
	two, err := c.get([]byte(`"7/h"`))
	if one != two || err != nil {
		t.Errorf("the second time the limit is compiled again: %v", err)
	}
	long := fmt.Appendf(nil, `{"limit":1,%s"window":"1s"}`, strings.Repeat(" ", maxCachedText))
	if _, err := c.get(long); err != nil || c.Len() != maxCachedLimits {
		t.Errorf("long text: %v, %d kept", err, c.Len())
	}
	if _, kept := c.Get(string(long)); kept {
		t.Error("long text is kept")
	}
}
