package adminapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// form is the body of a replay: names and texts in turn.
func form(t *testing.T, parts ...string) (body io.Reader, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		part, err := w.CreateFormField(parts[i])
		if err == nil {
			_, err = io.WriteString(part, parts[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b, w.FormDataContentType()
}

// post sends a replay to a real server, and returns the answer before its body is read.
func (f *fixture) post(ctx context.Context, url string, body io.Reader, kind string) *http.Response {
	f.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/replay", body)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// replayed runs a replay to its end, and returns its report.
func (f *fixture) replayed(parts ...string) replayReport {
	f.t.Helper()
	s := httptest.NewServer(f.API)
	defer s.Close()
	body, kind := form(f.t, parts...)
	answer := f.post(f.t.Context(), s.URL, body, kind)
	if answer.StatusCode != 200 {
		text, _ := io.ReadAll(answer.Body)
		f.t.Fatalf("%s: %s", answer.Status, text)
	}
	stream := &stream{t: f.t, lines: bufio.NewReader(answer.Body)}
	data := stream.next("report").data
	var value any
	var report replayReport
	if err := json.Unmarshal([]byte(data), &value); err != nil {
		f.t.Fatal(err)
	}
	if err := document(f.t).Components.Schemas["ReplayReport"].Value.VisitJSON(value); err != nil {
		f.t.Errorf("the document says of the report: %v", err)
	}
	if err := json.Unmarshal([]byte(data), &report); err != nil {
		f.t.Fatal(err)
	}
	return report
}

// traffic is n requests of one caller to /orders in a second.
func traffic(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"t_us":%d,"api_key":"sk_live_%d","ip":"10.0.%d.%d","path":"/orders"}`+"\n", 1_700_000_040_000_000+i, i%2, i/250, i%250)
	}
	return b.String()
}

func TestAReplayComparesADraftWithTheRulesInForce(t *testing.T) {
	f := newFixture(t, shop)
	f.HashKey = func(string) string { return "0123456789abcdef" }
	draft := strings.Replace(shop, "limit: 10", "limit: 4", 1)
	got := f.replayed("draft", draft, "top", "1", "log", traffic(30))
	if !got.Complete || got.Report.Events != 30 || got.Report.Denied != 10 || got.Report.Compare == nil || got.Report.Compare.NewlyDenied != 12 || got.Report.Compare.CallersNewlyDenied != 2 {
		t.Errorf("%+v %+v", got.Report, got.Report.Compare)
	}
	if top := got.Report.Compare.TopNewlyDenied; len(top) != 1 || strings.Contains(top[0].Caller, "live") || !strings.HasSuffix(top[0].Caller, "012345") {
		t.Errorf("%v", top)
	}
	if got := f.want(200, "POST", "/v1/peek", `{"key":"sk_live_0","rule":"orders"}`); !strings.Contains(got.body, `"remaining":10`) {
		t.Errorf("a replay has touched a live key: %s", got.body)
	}
	if got := f.replayed("log", traffic(30)); got.Report.Compare != nil || got.Report.Denied != 10 {
		t.Errorf("without a draft: %+v", got.Report)
	}
	if got := f.replayed("since", "2023-11-14T22:14:00.000010Z", "log", traffic(30)); got.Report.Events != 20 || got.Report.Outside != 10 {
		t.Errorf("a part of it: %+v", got.Report)
	}
}

func TestAReplayReadsTheDecisionLog(t *testing.T) {
	f := newFixture(t, shop)
	f.DecisionLog = filepath.Join(t.TempDir(), "decisions.jsonl")
	if err := os.WriteFile(f.DecisionLog, []byte(traffic(12)), 0o600); err != nil {
		t.Fatal(err)
	}
	old := f.DecisionLog + ".20231114T221400.000020"
	if err := os.WriteFile(old, []byte(traffic(20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := f.replayed("source", "decision_log"); !got.Complete || got.Report.Events != 32 || got.Files != 2 || got.OlderLeftOut {
		t.Errorf("%+v", got)
	}
	if got := f.replayed("since", "2023-11-14T22:14:01Z", "source", "decision_log"); got.Files != 1 {
		t.Errorf("since the end of the old file: %+v", got)
	}
	f.replayBounds.bytes = int64(len(traffic(12)))
	if got := f.replayed("source", "decision_log"); !got.Complete || got.Report.Events != 12 || got.Files != 1 || !got.OlderLeftOut {
		t.Errorf("the newest lines alone: %+v", got)
	}
}

func TestAReplayIsBounded(t *testing.T) {
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	for range 2000 {
		_, _ = z.Write([]byte(traffic(100)))
	}
	_ = z.Close()
	endless := strings.Repeat(traffic(100), 200)
	var strangers strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&strangers, `{"t_us":%d,"api_key":"k%d","ip":"10.0.%d.%d","path":"/orders"}`+"\n", 1_700_000_040_000_000+i, i, i/250, i%250)
	}
	for name, c := range map[string]struct {
		bounds  replayBounds
		log     string
		stopped string
	}{
		"events":       {replayBounds{8192, 1 << 30, 1 << 30, time.Minute, time.Minute, time.Minute}, endless, "events"},
		"a small file": {replayBounds{8192, 1 << 30, 1 << 30, time.Minute, time.Minute, time.Minute}, zipped.String(), "events"},
		"keys":         {replayBounds{1 << 30, 9000, 1 << 30, time.Minute, time.Minute, time.Minute}, strangers.String(), "keys"},
		"bytes":        {replayBounds{1 << 30, 1 << 30, 100_000, time.Minute, time.Minute, time.Minute}, endless, "bytes"},
		"time":         {replayBounds{1 << 30, 1 << 30, 1 << 30, time.Microsecond, time.Minute, time.Minute}, endless, "time"},
		"damage":       {defaultReplayBounds(), zipped.String()[:zipped.Len()/2], "input"},
		"no recording": {defaultReplayBounds(), "hello\nworld\n", "input"},
	} {
		f := newFixture(t, shop)
		f.replayBounds = c.bounds
		got := f.replayed("log", c.log)
		if got.Complete || got.Stopped != c.stopped || (got.Problem != "") != (c.stopped == "input") {
			t.Errorf("%s: stopped by %q, %q after %d events", name, got.Stopped, got.Problem, got.Report.Events)
		}
	}
}

// halfway starts a replay whose upload never ends, and returns its answer and a function by which
// the client leaves.
func (f *fixture) halfway(url string) (answer <-chan *http.Response, leave func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	from, to := io.Pipe()
	whole, kind := form(f.t, "log", traffic(1000))
	text, err := io.ReadAll(whole)
	if err != nil {
		f.t.Fatal(err)
	}
	go func() { _, _ = to.Write(text[:len(text)/2]) }() // the other half never comes
	answers := make(chan *http.Response, 1)
	go func() {
		defer close(answers)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/replay", from)
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", kind)
		if got, err := http.DefaultClient.Do(r); err == nil {
			answers <- got
		}
	}()
	leave = func() { cancel(); _ = to.CloseWithError(io.ErrClosedPipe) }
	f.t.Cleanup(leave)
	return answers, leave
}

func TestOneReplayRunsAtATime(t *testing.T) {
	f := newFixture(t, shop)
	f.replayBounds.turn, f.replayBounds.silent = 10*time.Millisecond, time.Minute
	s := httptest.NewServer(f.API)
	defer s.Close()
	another := func() int {
		body, kind := form(t, "log", traffic(1))
		answer := f.post(t.Context(), s.URL, body, kind)
		answer.Body.Close()
		return answer.StatusCode
	}
	_, leave := f.halfway(s.URL)
	for len(f.replaying) == 0 { // until the first one has begun
		<-time.After(time.Millisecond)
	}
	if got := another(); got != http.StatusServiceUnavailable {
		t.Errorf("status %d during another replay", got)
	}
	leave()
	for another() != http.StatusOK { // until the server has noticed it
		<-time.After(time.Millisecond)
	}
}

// A client that stops in the middle of its upload gets a report, and the next replay begins.
func TestASilentUploadIsEnded(t *testing.T) {
	f := newFixture(t, shop)
	f.replayBounds.silent = 200 * time.Millisecond
	s := httptest.NewServer(f.API)
	defer s.Close()
	answers, _ := f.halfway(s.URL)
	answer := <-answers
	if answer == nil {
		t.Fatal("no answer")
	}
	defer answer.Body.Close()
	stream := &stream{t: t, lines: bufio.NewReader(answer.Body)}
	var report replayReport
	if err := json.Unmarshal([]byte(stream.next("report").data), &report); err != nil || report.Complete || report.Stopped != "upload" {
		t.Errorf("%+v, %v", report, err)
	}
	body, kind := form(t, "log", traffic(1))
	if got := f.post(t.Context(), s.URL, body, kind); got.StatusCode != 200 {
		t.Errorf("the next replay: %s", got.Status)
	}
	from, to := io.Pipe()
	defer to.Close()
	go func() {
		_, _ = io.WriteString(to, "--x\r\nContent-Disposition: form-data; name=\"draft\"\r\n\r\nrules")
	}()
	if got := f.post(t.Context(), s.URL, from, "multipart/form-data; boundary=x"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("within the draft: %s", got.Status)
	}
}

// slowClient sends a byte after each pause, by the clock of a bubble.
type slowClient struct {
	pause    time.Duration
	most     int // bytes
	deadline time.Time
	sent     int
}

func (c *slowClient) SetReadDeadline(at time.Time) error { c.deadline = at; return nil }

func (c *slowClient) Read(p []byte) (int, error) {
	if end := time.Now().Add(c.pause); end.After(c.deadline) {
		time.Sleep(time.Until(c.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(c.pause)
	n := min(len(p), c.most)
	c.sent += n
	return n, nil
}

func (*slowClient) Close() error { return nil }

func (*slowClient) Header() http.Header       { return nil }
func (*slowClient) Write([]byte) (int, error) { return 0, nil }
func (*slowClient) WriteHeader(int)           {}

func TestAnUploadHasToKeepItsPace(t *testing.T) {
	for name, c := range map[string]struct {
		client slowClient
		fails  bool
		within time.Duration
	}{
		"a byte now and then": {slowClient{pause: 3 * time.Second, most: 1}, true, 11 * time.Second},
		"silence":             {slowClient{pause: time.Hour, most: 1}, true, 11 * time.Second},
		"half the pace":       {slowClient{pause: time.Second, most: uploadPace / 2}, true, 21 * time.Second},
		"the pace":            {slowClient{pause: time.Second, most: uploadPace}, false, 0},
		"late and fast":       {slowClient{pause: 9 * time.Second, most: 10 * uploadPace}, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			p := &pacedReader{ReadCloser: &c.client, control: http.NewResponseController(&c.client), silent: 10 * time.Second}
			var err error
			for err == nil && time.Since(began) < 10*time.Minute {
				_, err = p.Read(make([]byte, 1<<20))
			}
			if errors.Is(err, errSlowUpload) != c.fails || c.fails && time.Since(began) > c.within {
				t.Errorf("%s: %v after %v and %d bytes", name, err, time.Since(began), c.client.sent)
			}
		})
	}
}

func TestWrongReplaysSayWhatIsWrong(t *testing.T) {
	f := newFixture(t, shop)
	s := httptest.NewServer(f.API)
	defer s.Close()
	for want, parts := range map[string][]string{
		"log: is missing":                    {"draft", shop},
		"the rules have mistakes":            {"draft", "rules: [{id: x, limit: none}]", "log", ""},
		`\"rulez\": is not a known part`:     {"rulez", "x", "log", ""},
		"top: ":                              {"top", "101", "log", ""},
		"since: ":                            {"since", "x", "log", ""},
		"until: is longer than 200 bytes":    {"until", strings.Repeat("9", 500), "log", ""},
		`source: \"x\" is not known`:         {"source", "x"},
		"this server writes no decision log": {"source", "decision_log"},
	} {
		body, kind := form(t, parts...)
		answer := f.post(t.Context(), s.URL, body, kind)
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode/100 != 4 || !strings.Contains(string(text), want) {
			t.Errorf("%v: %s: %s, want %q", parts[0], answer.Status, text, want)
		}
	}
	if got := f.want(400, "POST", "/v1/replay", "{}"); !strings.Contains(got.body, "body: is not a form") {
		t.Error(got.body)
	}
}

// A defect that shows in a replay ends the replay, not the server.
func TestADefectEndsTheReplayAlone(t *testing.T) {
	f := newFixture(t, shop)
	var log bytes.Buffer
	f.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f.HashKey = func(string) string { panic("no hash") }
	got := f.replayed("log", traffic(300))
	if got.Complete || got.Stopped != "failure" || !strings.Contains(got.Problem, "a defect of the server") || got.Report.Events != 0 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(log.String(), `panic="no hash"`) || !strings.Contains(log.String(), "replay_test.go") {
		t.Errorf("the log has\n%s", &log)
	}
	f.HashKey = nil
	if got := f.replayed("log", traffic(30)); !got.Complete || got.Report.Events != 30 {
		t.Errorf("the next replay: %+v", got)
	}
}
