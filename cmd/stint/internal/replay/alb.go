package replay

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// albNames are the attributes of a line of an access log of an AWS Application
// Load Balancer.
var albNames = [...]string{"ip", "method", "path", "host", "status", "bytes", "header:user-agent", "elb", "target_group", "trace_id"}

// The fields of such a line, by position. AWS appends new fields at the end.
const (
	albType = iota
	albTime // the end of the request
	albELB
	albClient
	albTarget
	albRequestTime
	albTargetTime
	albResponseTime
	albStatus
	albTargetStatus
	albReceived
	albSent
	albRequest
	albUserAgent
	albCipher
	albProtocol
	albTargetGroup
	albTraceID
	albDomain
	albCertificate
	albPriority
	albCreation // the beginning of the request
	albFields
)

// isALB reports whether a line begins as those of a load balancer do: with the
// kind of the request and a time.
func isALB(line string) bool {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "http", "https", "h2", "grpcs", "ws", "wss":
		return len(rest) > len("2006-01-02T") && rest[4] == '-' && rest[7] == '-' && rest[10] == 'T'
	}
	return false
}

// readALB parses a line of an Application Load Balancer:
//
//	https time elb client:port target:port … 200 200 sent received "GET https://host:443/path HTTP/1.1" "user agent" …
//
// The line must be complete up to the request. Its time is when the load
// balancer received the request, or, in a line without that field, when it
// answered.
func readALB(line string, f fields) (fields, int64, error) {
	var values [albFields]string
	n := splitALB(line, &values)
	if n <= albRequest {
		return f, 0, errors.New("is not a whole line of a load balancer: it ends before its request")
	}
	t, err := time.Parse(time.RFC3339, values[albTime])
	if err != nil {
		return f, 0, fmt.Errorf("has the time %.40q, which is not one such as 2026-03-03T07:12:04.186641Z", values[albTime])
	}
	if n > albCreation {
		// A quote in the text of a client may move the fields after it.
		if created, err := time.Parse(time.RFC3339, values[albCreation]); err == nil {
			t = created
		}
	}
	f = appendText(f, "ip", cutPort(values[albClient]))
	if request := values[albRequest]; !strings.HasPrefix(request, "- ") {
		f = appendRequest(f, request)
	}
	f = appendText(f, "status", values[albStatus])
	f = appendText(f, "bytes", values[albSent])
	f = appendText(f, "header:user-agent", values[albUserAgent])
	f = appendText(f, "elb", values[albELB])
	f = appendText(f, "target_group", values[albTargetGroup])
	f = appendText(f, "trace_id", values[albTraceID])
	return f, t.UnixMicro(), checkTime("time", t.UnixMicro())
}

// splitALB splits a line at its spaces outside of quotes, and returns the number
// of fields. It ignores a field whose closing quote is missing.
func splitALB(line string, values *[albFields]string) int {
	n := 0
	for ; n < albFields && line != ""; n++ {
		if quoted, ok := strings.CutPrefix(line, `"`); ok {
			value, rest, whole := cutQuoted(quoted)
			if !whole {
				return n
			}
			values[n], line = value, strings.TrimPrefix(rest, " ")
			continue
		}
		values[n], line, _ = strings.Cut(line, " ")
	}
	return n
}
