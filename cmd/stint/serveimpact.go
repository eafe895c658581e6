package main

import (
	"strconv"
	"strings"
)

// parseShare reads a share such as 5% or 0.05; off is 0.
func parseShare(flag, text string) (float64, error) {
	if text == off {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share > 0 && share <= 1) {
		return 0, usagef("%s: %.40q is no share (write it as 5%% or 0.05, or off)", flag, text)
	}
	return share, nil
}
