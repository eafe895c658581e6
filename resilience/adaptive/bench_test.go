package adaptive

import "testing"

// BenchmarkGates measures admitting a call and ending it.
func BenchmarkGates(b *testing.B) {
	for name, gate := range map[string]Gate{
		"aimd":     must(New(Options{Algorithm: &AIMD{}})),
		"gradient": must(New(Options{})),
		"throttle": must(NewThrottle(ThrottleOptions{})),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call, _ := gate.Begin()
				call.End(Success)
			}
		})
	}
}
