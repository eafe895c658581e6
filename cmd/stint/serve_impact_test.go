package main

import "testing"

func TestSharesAreRead(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "100%": 1, "off": 0, "0.5 %": 0.005} {
		if got, err := parseShare("f", text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "101%", "-1%", "NaN", "much", "%"} {
		if got, err := parseShare("f", text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
