package httpapi

import (
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/boundedcache"
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
	*boundedcache.Cache[string, stint.Limit]
}

func newLimitCache() *limitCache {
	return &limitCache{boundedcache.New[string, stint.Limit](maxCachedLimits)}
}

// get returns the limit that the JSON text describes. It is safe for concurrent use.
func (c *limitCache) get(text []byte) (stint.Limit, error) {
	if limit, ok := boundedcache.GetText(c.Cache, text); ok {
		return limit, nil
	}
	limit, err := compileCallers(text)
	if err == nil && len(text) <= maxCachedText {
		c.Put(string(text), limit)
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

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
