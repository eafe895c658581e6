package grpclimit

import (
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/stintdev/stint/httplimit"
)

// fields is what the headers of HTTP would tell of an answer, as metadata.
// What belongs to a status is said there: in RetryInfo and by the pushback.
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
