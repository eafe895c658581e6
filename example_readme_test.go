package stint_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func allow(ctx context.Context) error {
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		return err
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "api", limit)
	if err != nil {
		return err
	}
	d, err := limiter.Allow(ctx, "user:42") // d.Allowed, d.Remaining, d.RetryAfter
	fmt.Println(d.Allowed, d.Remaining)
	return err
}

// The first example of the README.
func Example_library() {
	fmt.Println(allow(context.Background()))
	// Output:
	// true 99
	// <nil>
}

func limited(hello http.Handler) (http.Handler, error) {
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		return nil, err
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "api", limit)
	if err != nil {
		return nil, err
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		return nil, err
	}
	return limited.Wrap(hello), nil
}

// The middleware example of the README.
func Example_middleware() {
	handler, err := limited(http.NotFoundHandler())
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 404 0
	// 429 0
}
