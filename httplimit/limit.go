package httplimit

import (
	"net/http"

	"github.com/stintdev/stint"
)

// Option changes what [Limit] does.
type Option func(*Middleware)

// Limit returns middleware that counts requests under a limiter.
func Limit(limiter *stint.Limiter, opts ...Option) func(http.Handler) http.Handler {
	return (&Middleware{}).Wrap
}
