package replay

import (
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
)

// accessLine matches access log lines that are events. This parser shares
// nothing with the one under test.
var accessLine = regexp.MustCompile(`^(\S+) .*?\[([^\]]+)\] "((?:[^"\\]|\\.)*)" \d{3}(?: |$)`)

// modelAccessLog decides an access log by the exact model, under a rule of ten
// a minute by IP for paths that begin with a slash.
func modelAccessLog(text, algorithm string, reorder time.Duration) (all []decided, unread int64) {
	kind, _ := stint.ParseAlgorithm(algorithm)
	limit, err := stint.Spec{Rule: "by-ip", Algorithm: kind, Limit: 10, Window: time.Minute}.Compile()
	if err != nil {
		panic(err)
	}
	var read []pending
	parts := map[int64][]string{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		found := accessLine.FindStringSubmatch(line)
		if found == nil {
			unread++
			continue
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", found[2])
		if err != nil {
			unread++
			continue
		}
		parts[int64(i+1)] = found
		read = append(read, pending{t: at.UnixMicro(), order: orderOf(0, int64(i+1))})
	}
	if reorder > 0 {
		read = byTheBook(read, reorder.Microseconds())
	}
	model := oracle.New()
	for _, p := range read {
		found := parts[p.line()]
		all = append(all, modelRequest(model, limit, &p, found[1], found[3]))
	}
	return all, unread
}

func modelRequest(model *oracle.Model, limit stint.Limit, p *pending, host, request string) decided {
	if _, target, _ := strings.Cut(request, " "); !strings.HasPrefix(target, "/") && !strings.Contains(target, "://") {
		return decidedBy(p, "", "", stint.Decision{Allowed: true}) // no request: no rule matches
	}
	address := netip.MustParseAddr(host)
	key := address.String()
	if address.Is6() {
		network, _ := address.Prefix(64)
		key = network.String()
	}
	return decidedBy(p, "by-ip", key, model.Take(p.t, stint.Claim{Key: key, Limit: limit, Cost: 1}))
}
