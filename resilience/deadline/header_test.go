package deadline

import (
	"math"
	"net/http"
	"testing"
	"time"
)

const none = -1 // no deadline was sent

func TestLeft(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name   string
		header http.Header
		want   time.Duration
	}{
		{"nothing", http.Header{}, none},
		{"milliseconds", http.Header{"X-Deadline-Ms": {"850"}}, 850 * ms},
		{"over", http.Header{"X-Deadline-Ms": {"0"}}, 0},
		{"longOver", http.Header{"X-Deadline-Ms": {"-20"}}, 0},
		{"huge", http.Header{"X-Deadline-Ms": {"99999999999999999999"}}, math.MaxInt64},
		{"hugeAndBelowZero", http.Header{"X-Deadline-Ms": {"-99999999999999999999"}}, 0},
		{"fraction", http.Header{"X-Deadline-Ms": {"1.5"}}, none},
		{"unit", http.Header{"X-Deadline-Ms": {"850ms"}}, none},
		{"plus", http.Header{"X-Deadline-Ms": {"+850"}}, none},
		{"empty", http.Header{"X-Deadline-Ms": {""}}, none},
		{"otherDigits", http.Header{"X-Deadline-Ms": {"٣"}}, none},
		{"leastOfTwo", http.Header{"X-Deadline-Ms": {"850", "x", "20"}}, 20 * ms},
		{"leastOfTwoWhichIsFirst", http.Header{"X-Deadline-Ms": {"20", "850"}}, 20 * ms},
		{"envoy", http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"850"}}, 850 * ms},
		{"envoyWithoutOne", http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"0"}}, none},
		{"grpcHours", http.Header{"Grpc-Timeout": {"2H"}}, 7200 * s},
		{"grpcMinutes", http.Header{"Grpc-Timeout": {"2M"}}, 120 * s},
		{"grpcSeconds", http.Header{"Grpc-Timeout": {"2S"}}, 2 * s},
		{"grpcMilliseconds", http.Header{"Grpc-Timeout": {"99999999m"}}, 99999999 * ms},
		{"grpcMicroseconds", http.Header{"Grpc-Timeout": {"2u"}}, 2 * time.Microsecond},
		{"grpcNanoseconds", http.Header{"Grpc-Timeout": {"2n"}}, 2},
		{"grpcOver", http.Header{"Grpc-Timeout": {"0m"}}, 0},
		{"grpcTooManyHours", http.Header{"Grpc-Timeout": {"99999999H"}}, math.MaxInt64},
		{"grpcNineDigits", http.Header{"Grpc-Timeout": {"100000000m"}}, none},
		{"grpcBelowZero", http.Header{"Grpc-Timeout": {"-1m"}}, none},
		{"grpcWithoutUnit", http.Header{"Grpc-Timeout": {"100"}}, none},
		{"grpcWithoutNumber", http.Header{"Grpc-Timeout": {"m"}}, none},
		{"leastOfAll", http.Header{"X-Deadline-Ms": {"850"}, "Grpc-Timeout": {"20m"}, "X-Envoy-Expected-Rq-Timeout-Ms": {"30"}}, 20 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			left, ok := Left(c.header, "")
			if ok != (c.want != none) || ok && left != c.want {
				t.Errorf("got %v, %v; want %v", left, ok, c.want)
			}
		})
	}
	if left, ok := Left(http.Header{"Budget": {"7"}, "X-Deadline-Ms": {"1"}}, "Budget"); !ok || left != 7*time.Millisecond {
		t.Errorf("with a named header: %v, %v", left, ok)
	}
}

func TestSetNeverSaysMore(t *testing.T) {
	h := http.Header{"X-Deadline-Ms": {"9", "8"}, "X-Envoy-Expected-Rq-Timeout-Ms": {"5000"}, "Grpc-Timeout": {"5S"}}
	Set(h, "", 1500*time.Millisecond-1)
	for name, want := range map[string]string{DefaultHeader: "1499", envoyHeader: "1499", grpcHeader: "1499999u"} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	Set(h, "", time.Hour)
	if h.Get(DefaultHeader) != "3600000" || h.Get(envoyHeader) != "1499" || h.Get(grpcHeader) != "1499999u" {
		t.Errorf("a lower value of another header was overwritten: %v", h)
	}
	h = http.Header{}
	Set(h, "Budget", -time.Second)
	if len(h) != 1 || h.Get("Budget") != "0" {
		t.Errorf("%v", h)
	}
}

// For Envoy, 0 means no deadline, so Set writes at least 1.
func TestSetTellsEnvoyOfNoTime(t *testing.T) {
	h := http.Header{envoyHeader: {"5000"}}
	Set(h, "", time.Millisecond-1)
	if h.Get(DefaultHeader) != "0" || h.Get(envoyHeader) != "1" {
		t.Errorf("%v", h)
	}
}

// The headers of other systems may be named too, and keep their format.
func TestHeadersOfOthersAsOnes(t *testing.T) {
	for name, want := range map[string]string{"grpc-timeout": "850000u", "x-envoy-expected-rq-timeout-ms": "850"} {
		h := http.Header{}
		Set(h, name, 850*time.Millisecond)
		left, ok := Left(h, name)
		if got := h.Get(name); got != want || len(h) != 1 || !ok || left != 850*time.Millisecond {
			t.Errorf("%s: %v, read as %v, %v", name, h, left, ok)
		}
	}
	if left, ok := Left(http.Header{grpcHeader: {"850"}}, "grpc-timeout"); ok {
		t.Errorf("grpc-timeout without a unit: %v", left)
	}
	if left, ok := Left(http.Header{envoyHeader: {"0"}}, envoyHeader); ok {
		t.Errorf("no deadline to Envoy: %v", left)
	}
}

func TestGRPCFormatsFitTheirUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0n", 99_999_999: "99999999n", 100_000_000: "100000u", 100 * time.Second: "100000m",
		100_000 * time.Second: "100000S", 100_000_000 * time.Second: "1666666M", math.MaxInt64: "2562047H",
	} {
		if got := formatGRPC(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// FuzzLeft checks that the time left is never below 0, for any header. The time that is passed
// on is never more than the time received. It is at most a millisecond less, or less by the
// rounding that the eight digits of grpc-timeout require.
func FuzzLeft(f *testing.F) {
	for _, v := range []string{"", "850", "-1", "0", "99999999999999999999", "1e9", "0x10", "٣", " 5 ", "5m", "99999999H", "-5S", "\x00"} {
		f.Add(v, v, v)
	}
	f.Add("100000001", "28H", "0")
	f.Fuzz(func(t *testing.T, own, grpc, envoy string) {
		h := http.Header{DefaultHeader: {own}, grpcHeader: {grpc}, envoyHeader: {envoy}}
		left, ok := Left(h, "")
		if left < 0 || !ok && left != 0 {
			t.Fatalf("%v, %v", left, ok)
		}
		if !ok {
			return
		}
		Set(h, "", left)
		if again, ok := Left(h, ""); !ok || again > left || float64(left-again) > max(1e6, float64(left)/1e4) {
			t.Errorf("%v was left, and %v passed on (%v)", left, again, h)
		}
	})
}

// A time in the format of gRPC is parsed as no more than the original, and as nearly all
// of it.
func FuzzGRPCTimeout(f *testing.F) {
	for _, d := range []int64{0, 1, 99_999_999, 100_000_000, int64(time.Hour), math.MaxInt64} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(max(0, n))
		read, ok := grpcTimeout(formatGRPC(d))
		if !ok || read > d || float64(d-read) > float64(d)/1e4 {
			t.Errorf("%v was written %s and read %v, %v", d, formatGRPC(d), read, ok)
		}
	})
}
