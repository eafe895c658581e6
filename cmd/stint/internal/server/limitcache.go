package server

import (
	"fmt"
	"sync"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// Bounds of a limitCache: the number of limits, and the length of a limit's text.
const (
	maxCachedLimits = 1024
	maxCachedText   = 512 // bytes
)

// limitCache caches compiled caller-supplied limits by their JSON text. Compiling costs
// microseconds, and most callers send the same few limits. A caller that keeps sending
// new ones only pays for compiling them.
type limitCache struct {
	mu     sync.RWMutex
	byText map[string]stint.Limit
}

func newLimitCache() *limitCache { return &limitCache{byText: map[string]stint.Limit{}} }

// get returns the limit that the JSON text describes. It is safe for concurrent use.
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

// put evicts an arbitrary limit if the cache is full; a limit in use is soon cached
// again.
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
