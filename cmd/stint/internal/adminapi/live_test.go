package adminapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/live"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// watched is an API with a recorder of seconds, behind a real server.
type watched struct {
	*fixture

	recorder *live.Recorder
	url      string
	count    uint64
	passed   atomic.Int64 // since start, in nanoseconds
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{fixture: newFixture(t, shop)}
	w.recorder = live.New(func(to *live.Reading) {
		w.count += 10
		to.Requests.Allowed, to.Rules["orders"] = w.count, live.Counts{Allowed: w.count}
	})
	w.Live, w.now = w.recorder, w.at
	s := httptest.NewServer(w.API)
	t.Cleanup(func() { w.recorder.Close(); s.Close() })
	w.url = s.URL
	w.recorder.Record(w.at())
	return w
}

func (w *watched) at() time.Time { return start.Add(time.Duration(w.passed.Load())) }

func (w *watched) second() {
	w.passed.Add(int64(time.Second))
	w.recorder.Record(w.at())
}

// event is one server-sent event.
type event struct{ id, name, data string }

// stream is an open live view.
type stream struct {
	t     *testing.T
	lines *bufio.Reader
	leave func()
}

func (w *watched) open(header ...string) (*stream, *http.Response) {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/live", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { leave(); answer.Body.Close() })
	return &stream{w.t, bufio.NewReader(answer.Body), leave}, answer
}

// next returns the next event with the name.
func (s *stream) next(name string) event {
	s.t.Helper()
	for {
		var e event
		for {
			line, err := s.lines.ReadString('\n')
			if err != nil {
				s.t.Fatalf("the stream ends before an event %s: %v", name, err)
			}
			if line = strings.TrimSuffix(line, "\n"); line == "" {
				break
			}
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			}
		}
		if e.name == name {
			return e
		}
	}
}

// end checks that the server ends the stream with the reason.
func (s *stream) end(reason string) {
	s.t.Helper()
	if e := s.next("end"); e.data != `{"reason":"`+reason+`"}` {
		s.t.Errorf("%s", e.data)
	}
	if rest, err := io.ReadAll(s.lines); err != nil || len(rest) > 0 {
		s.t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestALiveViewBeginsWithThePast(t *testing.T) {
	w := newWatched(t)
	w.second()
	w.second()
	s, answer := w.open()
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" || answer.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	first := s.next("second")
	if first.id != "1772366401000" || !strings.HasPrefix(first.data, `{"time_ms":1772366401000,"length_ms":1000,"allowed":10,`) {
		t.Errorf("%v", first)
	}
	second := s.next("second")
	nodes := s.next("nodes")
	var body liveNodes
	if err := json.Unmarshal([]byte(nodes.data), &body); err != nil || len(body.Nodes) != 1 || body.Nodes[0].Version != 1 {
		t.Errorf("%s, %v", nodes.data, err)
	}
	w.second()
	third := s.next("second")
	if third.id != "1772366403000" {
		t.Errorf("%v", third)
	}
	s, _ = w.open("Last-Event-ID", second.id)
	if got := s.next("second"); got != third {
		t.Errorf("after %s: %v", second.id, got)
	}
	s, _ = w.open("Last-Event-ID", strconv.FormatInt(math.MaxInt64, 10))
	if got := s.next("second"); got != first {
		t.Errorf("after an id of another server: %v", got)
	}
	w.want(400, "GET", "/v1/live", "", "Last-Event-ID", "x")
	newFixture(t, shop).want(404, "GET", "/v1/live", "")
}

// An answer to HEAD has no body, so its sender would not see that a stream stays open.
func TestAHeadOfALiveViewEnds(t *testing.T) {
	w := newWatched(t)
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/v1/live", nil))
	if answer.Code != 200 || w.views.others != 0 {
		t.Errorf("%d, %d views", answer.Code, w.views.others)
	}
}

func TestLiveEventsAreAsDocumented(t *testing.T) {
	w := newWatched(t)
	w.second()
	s, _ := w.open()
	for name, schema := range map[string]string{"second": "LiveSecond", "nodes": "LiveNodes"} {
		var value any
		if err := json.Unmarshal([]byte(s.next(name).data), &value); err != nil {
			t.Fatal(err)
		}
		if err := document(t).Components.Schemas[schema].Value.VisitJSON(value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s, _ = w.open()
	}
}

func TestLiveViewsAreBounded(t *testing.T) {
	w := newWatched(t)
	var err error
	w.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("viewer") + "\no operator " + hash("operator") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	var open []*stream
	for range mostViews {
		s, answer := w.open("Authorization", "Bearer viewer")
		if answer.StatusCode != 200 {
			t.Fatal(answer.Status)
		}
		open = append(open, s)
	}
	if got := w.want(503, "GET", "/v1/live", "", "Authorization", "Bearer viewer"); !strings.Contains(got.body, "16 live views are open") {
		t.Error(got.body)
	}
	if _, answer := w.open("Authorization", "Bearer operator"); answer.StatusCode != 200 {
		t.Errorf("viewers keep an operator out: %s", answer.Status)
	}
	open[0].leave()
	for { // until the server has noticed
		s, answer := w.open("Authorization", "Bearer viewer")
		if answer.StatusCode == 200 {
			break
		}
		s.leave()
	}
}

func TestALiveViewEndsWithItsToken(t *testing.T) {
	w := newWatched(t)
	var err error
	w.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("viewer") + "\no operator " + hash("operator") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	w.second()
	viewer, _ := w.open("Authorization", "Bearer viewer")
	operator, _ := w.open("Authorization", "Bearer operator")
	viewer.next("second")
	operator.next("second")
	fewer, err := ParseTokens(rule.File{Name: "tokens", Data: []byte("o operator " + hash("operator") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	w.Tokens.Replace(fewer)
	w.second()
	viewer.end(endToken)
	operator.next("second")
	w.recorder.Close()
	operator.end(endShutdown)
}

func TestAClientThatDoesNotKeepUpIsDropped(t *testing.T) {
	w := newWatched(t)
	w.second()
	slow := &slowRecorder{ResponseRecorder: httptest.NewRecorder(), wait: func() { w.passed.Add(int64(tooSlow + time.Second)) }}
	w.ServeHTTP(slow, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/live", nil))
	if !strings.HasSuffix(slow.Body.String(), "event: end\ndata: {\"reason\":\"slow\"}\n\n") {
		t.Error(slow.Body)
	}
}

// slowRecorder takes a long time for each part.
type slowRecorder struct {
	*httptest.ResponseRecorder

	wait func()
}

func (s *slowRecorder) Write(p []byte) (int, error) {
	s.wait()
	return s.ResponseRecorder.Write(p)
}

func (s *slowRecorder) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

// The nodes are shown together: a view begins with what the server knows of the last 15 minutes,
// and a server that nobody watches knows nothing.
func TestALiveViewSumsUpTheNodes(t *testing.T) {
	traffic := func(allowed, denied uint64, length int64) ruleset.Node {
		return ruleset.Node{Traffic: &live.Second{Allowed: allowed, Denied: denied, Shadow: 5, Degraded: 10, Length: length}}
	}
	nodes := []ruleset.Node{traffic(100, 50, 5000), traffic(40, 0, 2000), {ID: "an older one"}}
	p, ok := pointOf(nodes, start)
	if want := (fleetPoint{start.UnixMilli(), 2, live.Rates{Allowed: 40, Denied: 10, Shadow: 3.5, Degraded: 7}}); !ok || p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	if _, ok := pointOf(nodes[2:], start); ok {
		t.Error("a node without counts made a point")
	}
	f := fleet{}
	rules := announced{nodes: nodes}
	for n := range 2 * mostPoints {
		if got := len(f.nodes(t.Context(), rules, start.Add(time.Duration(n)*nodesEvery)).Points); got != min(n+1, mostPoints) {
			t.Fatalf("%d points after %d times", got, n+1)
		}
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if got := (&fleet{}).nodes(left, rules, start); got.Error != "" {
		t.Error("the client of one view left, and all views have an error:", got.Error)
	}
	all := f.body.Points
	last := all[len(all)-1].Time
	for at, want := range map[int64]int{0: mostPoints, last: 0, last - 1: 1, last + 1: mostPoints} {
		if got := len(pointsAfter(all, at)); got != want {
			t.Errorf("%d points after %d, want %d", got, at, want)
		}
	}
}

// announced is a source of rules with nodes.
type announced struct {
	Rules

	nodes []ruleset.Node
}

func (a announced) Nodes(ctx context.Context) ([]ruleset.Node, error) { return a.nodes, ctx.Err() }
