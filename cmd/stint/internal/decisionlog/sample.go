package decisionlog

import (
	"fmt"
	"strconv"
	"strings"
)

// Sample says which allowed decisions are logged.
type Sample struct {
	Share float64 // 0 to 1
	// ByCaller keeps all decisions of a share of the callers, instead of a share of the
	// decisions.
	ByCaller bool
}

// below reports whether a random number of 64 bits is within the share.
func (s Sample) below(n uint64) bool {
	return s.Share >= 1 || float64(n>>11)/(1<<53) < s.Share
}

// ParseSample parses a sample: a percentage or a share from 0 to 1, for callers with
// ":caller" behind it, such as 1% or 0.01:caller.
func ParseSample(text string) (s Sample, err error) {
	number, of, limited := strings.Cut(text, ":")
	if limited && of != "caller" {
		return s, fmt.Errorf("%.40q is not a known form (write 1%% for a share of the allowed requests, or 1%%:caller for all requests of a share of the callers)", text)
	}
	s.ByCaller = limited
	digits, percent := strings.CutSuffix(number, "%")
	if s.Share, err = strconv.ParseFloat(digits, 64); err == nil && percent {
		s.Share /= 100
	}
	if err != nil || !(s.Share >= 0 && s.Share <= 1) {
		return Sample{}, fmt.Errorf("%.40q is not a share (write a percentage from 0%% to 100%%, such as 1%%)", text)
	}
	return s, nil
}
