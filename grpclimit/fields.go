package grpclimit

import (
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/stintdev/stint/httplimit"
)

// fields returns the HTTP header fields of an answer as metadata. It omits Retry-After
// and Cache-Control: RetryInfo and the pushback field have the retry time.
func fields(a *httplimit.Answer, now time.Time) metadata.MD {
	h := make(http.Header, 8)
	a.SetHeaders(h, now)
	md := make(metadata.MD, len(h)+1)
	for name, values := range h {
		if name != "Retry-After" && name != "Cache-Control" {
			md[strings.ToLower(name)] = values
		}
	}
	return md
}
