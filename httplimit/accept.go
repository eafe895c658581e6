package httplimit

import (
	"strconv"
	"strings"
)

// prefersProblem reports whether a client that sent these Accept lines
// (RFC 9110, section 12.5.1) asks for application/problem+json: it names that
// type, and gives plain JSON no greater quality. A wildcard does not ask for
// it, so that only clients that know the type get it.
func prefersProblem(lines []string) bool {
	problem, plain, precision := 0.0, 0.0, 0
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			name, quality := mediaRange(element)
			if name == "application/problem+json" {
				problem = max(problem, quality)
			} else if p := plainPrecision(name); p > precision {
				plain, precision = quality, p
			}
		}
	}
	return problem > 0 && problem >= plain
}

// plainPrecision returns how specifically a media range matches application/json: 3 is
// an exact match, 0 no match.
func plainPrecision(name string) int {
	switch name {
	case "application/json":
		return 3
	case "application/*":
		return 2
	case "*/*":
		return 1
	}
	return 0
}

// mediaRange reads one element of Accept. It returns the name in lower case, and the
// quality, 0 if that is malformed.
func mediaRange(element string) (name string, quality float64) {
	name, parameters, _ := strings.Cut(element, ";")
	quality = 1
	for parameter := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			q = 0
		}
		quality = q
	}
	return strings.ToLower(strings.TrimSpace(name)), quality
}
