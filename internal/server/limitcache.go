package server

import (
	"fmt"
	"sync"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// The bounds of a limitCache: so many limits, none of longer text.
const (
	maxCachedLimits = 1024
	maxCachedText   = 512 // bytes
)

// limitCache keeps the limits that callers bring, compiled, by their text:
// compiling costs microseconds, and most callers bring the same few. Who
// brings ever new ones only pays for compiling them.
type limitCache struct {
	mu     sync.RWMutex
	byText map[string]stint.Limit
}

func newLimitCache() *limitCache { return &limitCache{byText: map[string]stint.Limit{}} }

// get returns the limit that the JSON text describes. It is safe for use by
// many goroutines at once.
func (c *limitCache) get(text []byte) (stint.Limit, error) {
	c.mu.RLock()
	limit, ok := c.byText[string(text)]
	c.mu.RUnlock()
	if ok {
		return limit, nil
	}
	limit, err := compileCallers(text)
	if err == nil && len(text) <= maxCachedText {
		c.put(string(text), limit)
	}
	return limit, err
}

func compileCallers(text []byte) (stint.Limit, error) {
	spec, err := rule.ParseSpec(text)
	if err != nil {
		return stint.Limit{}, err
	}
	spec.FromCaller = true
	return spec.Compile()
}

// put makes room by dropping any other limit: what is in use comes back.
func (c *limitCache) put(text string, limit stint.Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byText) >= maxCachedLimits {
		for other := range c.byText {
			delete(c.byText, other)
			break
		}
	}
	c.byText[text] = limit
}

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
