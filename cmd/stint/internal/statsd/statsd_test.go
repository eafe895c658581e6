package statsd

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stintdev/stint/internal/testserver"
)

// sentBy returns the lines that one send of a registry makes.
func sentBy(l *lines, registry prometheus.Gatherer, most int) (all []string) {
	families, err := registry.Gather()
	l.read(families, err == nil)
	for packet, sent := range l.packets(most) {
		if len(packet) > most {
			panic("the packet is too long")
		}
		all = append(all, strings.Split(string(packet), "\n")...)
		sent()
	}
	return all
}

func TestLines(t *testing.T) {
	registry := prometheus.NewRegistry()
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c_total", Help: "-"}, []string{"a", "b"})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "g", Help: "-"})
	times := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h_seconds", Help: "-", Buckets: []float64{1e-06, 2}})
	registry.MustRegister(count, gauge, times)
	l := newLines(true, false)
	for _, step := range []struct {
		when string
		do   func()
		want []string
	}{
		{"firstCountsAreWhole", func() { count.WithLabelValues("x", "y").Add(3); gauge.Set(-1.5); times.Observe(1) },
			[]string{"c_total:3|c|#a:x,b:y", "g:-1.5|g", "h_seconds_bucket:1|c|#le:2", "h_seconds_count:1|c", "h_seconds_sum:1|c"}},
		{"nothingNewIsNotSent", func() {}, []string{"g:-1.5|g"}},
		{"laterCountsAreDifferences", func() { count.WithLabelValues("x", "y").Inc(); gauge.Set(1e-7) }, []string{"c_total:1|c|#a:x,b:y", "g:0.0000001|g"}},
		{"separatorsAreReplaced", func() { count.WithLabelValues("a|b,c:d", "é\n").Inc() }, []string{"c_total:1|c|#a:a_b_c:d,b:é_", "g:0.0000001|g"}},
		{"aCounterThatBeginsAgain", func() { count.Reset(); count.WithLabelValues("x", "y").Add(2) }, []string{"c_total:2|c|#a:x,b:y", "g:0.0000001|g"}},
	} {
		step.do()
		if got := sentBy(l, registry, 1000); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %q, want %q", step.when, got, step.want)
		}
	}
}

func TestLinesWithoutTags(t *testing.T) {
	registry := prometheus.NewRegistry()
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c_total", Help: "-"}, []string{"rule"})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "g", Help: "-"})
	registry.MustRegister(count, gauge)
	count.WithLabelValues("a.b").Inc()
	count.WithLabelValues("").Inc()
	gauge.Set(-2)
	want := []string{"c_total.rule.a_b:1|c", "c_total.rule.none:1|c", "g:0|g", "g:-2|g"}
	if got := sentBy(newLines(false, false), registry, 1000); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Two rules whose names become one name at the collector are added up, once.
func TestNamesThatBecomeOne(t *testing.T) {
	registry := prometheus.NewRegistry()
	hits := prometheus.NewCounterVec(prometheus.CounterOpts{Name: envoyHits, Help: "-"}, []string{"rule", "kind"})
	registry.MustRegister(hits)
	l := newLines(false, true)
	one, other := hits.WithLabelValues("d.a b", "over_limit"), hits.WithLabelValues("d.a_b", "over_limit")
	one.Add(5)
	other.Add(3)
	const name, envoys = envoyHits + ".kind.over_limit.rule.d_a_b:", "ratelimit.service.rate_limit.d.a_b.over_limit:"
	want := []string{envoys + "5|c", envoys + "3|c", name + "5|c", name + "3|c"}
	if got := sentBy(l, registry, 1000); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	other.Inc()
	want = []string{envoys + "1|c", name + "1|c"}
	if got := sentBy(l, registry, 1000); !slices.Equal(got, want) {
		t.Errorf("later: got %q, want %q", got, want)
	}
}

func TestEnvoysNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	hits := prometheus.NewCounterVec(prometheus.CounterOpts{Name: envoyHits, Help: "-"}, []string{"rule", "kind"})
	registry.MustRegister(hits)
	hits.WithLabelValues("shop.user_vip.path", "over_limit").Add(4)
	want := []string{"ratelimit.service.rate_limit.shop.user_vip.path.over_limit:4|c", envoyHits + ":4|c|#kind:over_limit,rule:shop.user_vip.path"}
	if got := sentBy(newLines(true, true), registry, 1000); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := sentBy(newLines(true, false), registry, 1000); !slices.Equal(got, want[1:]) {
		t.Errorf("got %q, want %q", got, want[1:])
	}
}

func TestLinesFillDatagrams(t *testing.T) {
	registry := prometheus.NewRegistry()
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c_total", Help: "-"}, []string{"n"})
	registry.MustRegister(count)
	for i := range 100 {
		count.WithLabelValues(fmt.Sprint(i)).Inc()
	}
	count.WithLabelValues(strings.Repeat("x", 200)).Inc() // longer than a datagram
	if got := sentBy(newLines(true, false), registry, 100); len(got) != 100 {
		t.Errorf("%d lines", len(got))
	}
}

// What was not sent is in the next send, even if its series has ended.
func TestCountsWaitForTheCollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c_total", Help: "-"}, []string{"n"})
	registry.MustRegister(count)
	l := newLines(true, false)
	read := func() {
		families, _ := registry.Gather()
		l.read(families, true)
	}
	count.WithLabelValues("a").Add(2)
	read()
	count.WithLabelValues("a").Add(3)
	count.WithLabelValues("b").Add(1)
	read()
	count.DeleteLabelValues("a")
	read()
	if got, want := sentBy(l, registry, 1000), []string{"c_total:5|c|#n:a", "c_total:1|c|#n:b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if sentBy(l, registry, 1000); len(l.series) != 1 {
		t.Errorf("%d series are kept", len(l.series))
	}
}

// A read of the registry that fails, in part or as a whole, ends no series: its total is not sent
// again.
func TestAFailedReadSendsNoTotalAgain(t *testing.T) {
	registry := prometheus.NewRegistry()
	count := prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total", Help: "-"})
	registry.MustRegister(count)
	l := newLines(true, false)
	failing := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("no metrics") })
	count.Add(1000)
	for i, step := range []struct {
		from prometheus.Gatherer
		want []string
	}{{registry, []string{"c_total:1000|c"}}, {failing, nil}, {failing, nil}, {registry, nil}} {
		if got := sentBy(l, step.from, 1000); !slices.Equal(got, step.want) {
			t.Errorf("read %d sends %q, want %q", i, got, step.want)
		}
	}
	count.Add(5)
	if got := sentBy(l, registry, 1000); !slices.Equal(got, []string{"c_total:5|c"}) {
		t.Errorf("%q", got)
	}
}

// A collector that dies and comes back gets every count once, and two lines are logged.
func TestADeadCollectorLosesNoCount(t *testing.T) {
	folder, err := os.MkdirTemp("", "statsd") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	for _, network := range []string{"udp", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			address := fmt.Sprint("127.0.0.1:", testserver.FreePort(t, "udp"))
			flag := address
			if network == "unixgram" {
				address = filepath.Join(folder, "socket")
				flag = "unix://" + address
			}
			var log bytes.Buffer
			c := open(t, Options{Address: flag, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			registry := prometheus.NewRegistry()
			count := prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total", Help: "-"})
			registry.MustRegister(count)
			for range 20 {
				count.Inc()
				c.send(registry, time.Now().Add(patience))
			}
			socket, err := net.ListenPacket(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			received := make(chan int)
			go func() { received <- receive(t, socket) }()
			for range 20 {
				count.Inc()
				c.send(registry, time.Now().Add(patience))
			}
			end(t, c, registry)
			_ = socket.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			sum := <-received
			if sum != 40 {
				t.Errorf("the collector has counted %d of 40", sum)
			}
			if strings.Count(log.String(), "does not take metrics") != 1 || strings.Count(log.String(), "takes metrics again") != 1 {
				t.Errorf("logged %s", &log)
			}
		})
	}
}

// receive adds up the counts that arrive until the deadline of the socket.
func receive(t *testing.T, socket net.PacketConn) (sum int) {
	for packet := make([]byte, 2000); ; {
		n, _, err := socket.ReadFrom(packet)
		if err != nil {
			return sum
		}
		var delta int
		if _, err := fmt.Sscanf(string(packet[:n]), "c_total:%d|c", &delta); err != nil {
			t.Errorf("%q: %v", packet[:n], err)
		}
		sum += delta
	}
}

// A collector that does not read fills its socket. The end of the client does not wait for
// it.
func TestAHangingCollectorKeepsNobody(t *testing.T) {
	folder, err := os.MkdirTemp("", "statsd") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	path := filepath.Join(folder, "socket")
	socket, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	registry := prometheus.NewRegistry()
	gauges := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "g", Help: "-"}, []string{"n"})
	registry.MustRegister(gauges)
	for i := range 5000 {
		gauges.WithLabelValues(fmt.Sprint(i)).Set(1)
	}
	var log bytes.Buffer
	c := open(t, Options{Address: "unix://" + path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	began := time.Now()
	for range 2 {
		c.send(registry, time.Now().Add(patience))
	}
	end(t, c, registry)
	if took := time.Since(began); took > 3*maxWrite+5*time.Second {
		t.Errorf("three sends took %v", took)
	}
	if n := strings.Count(log.String(), "does not take metrics"); n != 1 {
		t.Errorf("%d lines: %s", n, &log)
	}
}
