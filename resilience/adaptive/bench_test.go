package adaptive

import "testing"

// BenchmarkGates is what it costs to let a call in and out.
func BenchmarkGates(b *testing.B) {
	for name, gate := range map[string]Gate{
		"aimd":     must(New(Options{Algorithm: &AIMD{}})),
		"gradient": must(New(Options{})),
		"throttle": must(NewThrottle(ThrottleOptions{})),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call, _ := gate.Enter()
				call.End(Served)
			}
		})
	}
}
