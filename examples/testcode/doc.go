// Package testcode has the code that docs/testing.md shows: tests of code that uses
// Stint.
package testcode

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stintdev/stint"
)

// mailer is the code under test. It sends mails at the pace of its limiter.
type mailer struct {
	limiter *stint.Limiter
	sent    int
}

func (m *mailer) send(ctx context.Context, mails int) error {
	for range mails {
		if err := m.limiter.Wait(ctx, "mail"); err != nil {
			return err
		}
		m.sent++
	}
	return nil
}

// login is the code under test, too. It is a handler that denies.
func login(limiter *stint.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := limiter.Allow(r.Context(), r.FormValue("user"))
		switch {
		case err != nil || d.Unavailable:
			w.WriteHeader(http.StatusServiceUnavailable)
		case !d.Allowed:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			_, _ = fmt.Fprintln(w, "welcome")
		}
	}
}
