package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/dynamotest"
	"github.com/stintdev/stint/internal/redistest"
)

// wantProblem checks an error: its kind, and a part of its problem or mend.
func wantProblem(t *testing.T, err error, kind stint.Kind, text string) {
	t.Helper()
	e, ok := errors.AsType[*stint.Error](err)
	if !ok || e.Kind != kind || !strings.Contains(e.Problem+"\n"+e.Mend, text) {
		t.Errorf("%v (%+v), want %s and %q", err, e, kind, text)
	}
}

// wantFailure checks that a read, a write and a transaction fail in one way.
func wantFailure(t *testing.T, b transacting, code stint.Code, kind stint.Kind, text string) {
	t.Helper()
	want := cas.Failed
	if code == stint.CodeTimeout || code == stint.CodeInternal {
		want = cas.Unknown
	}
	_, one := b.Load(inTime(t), []cas.Load{{Key: "k"}})
	_, several := b.Load(inTime(t), []cas.Load{{Key: "k"}, {Key: "l"}})
	swaps := []cas.Swap{swapOf("k", 0, "v")}
	_, err := b.Swap(inTime(t), swaps)
	if err != nil || swaps[0].Outcome != want {
		t.Errorf("outcome %d, want %d: %v", swaps[0].Outcome, want, err)
	}
	_, transaction := b.SwapAll(inTime(t), []cas.Swap{swapOf("k", 0, "v"), swapOf("l", 0, "v")})
	for what, err := range map[string]error{"read": one, "batch": several, "write": swaps[0].Err, "transaction": transaction} {
		if stint.CodeOf(err) != code {
			t.Errorf("%s: code %v, want %v", what, stint.CodeOf(err), code)
		}
		wantProblem(t, err, kind, text)
	}
	if err := b.Probe(inTime(t), ""); (err == nil) != (code == stint.CodeExhausted) {
		t.Errorf("a probe: %v", err)
	}
}

// answering starts a server that gives every call one answer.
func answering(t *testing.T, status int, body string) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// errorOf is the body of an answer of DynamoDB with an error.
func errorOf(code string) string {
	return fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"as documented"}`, code)
}

// canceled is the body of the answer to a transaction that was canceled.
func canceled(reasons ...string) string {
	var list []string
	for _, r := range reasons {
		list = append(list, fmt.Sprintf(`{"Code":%q}`, r))
	}
	return `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"canceled","CancellationReasons":[` + strings.Join(list, ",") + `]}`
}

// TestAnswersOfDynamoDB checks the errors that the documentation of DynamoDB lists, most of
// which no emulator returns.
func TestAnswersOfDynamoDB(t *testing.T) {
	setEnvironment(t)
	const bad = http.StatusBadRequest
	for _, c := range []struct {
		status int
		body   string
		code   stint.Code
		kind   stint.Kind
		text   string
	}{
		{bad, errorOf("ProvisionedThroughputExceededException"), stint.CodeExhausted, cas.KindThrottled, "lease the hot keys"},
		{bad, errorOf("RequestLimitExceeded"), stint.CodeExhausted, cas.KindThrottled, "lease the hot keys"},
		{bad, errorOf("ThrottlingException"), stint.CodeExhausted, cas.KindThrottled, "lease the hot keys"},
		{bad, canceled("None", "ThrottlingError"), stint.CodeExhausted, cas.KindThrottled, "lease the hot keys"},
		{bad, errorOf("ResourceNotFoundException"), stint.CodeUnavailable, "table", "stint store migrate"},
		{bad, errorOf("AccessDeniedException"), stint.CodeUnavailable, "noperm", "dynamodb:PutItem"},
		{bad, errorOf("UnrecognizedClientException"), stint.CodeUnavailable, "noauth", "AWS_ACCESS_KEY_ID"},
		{bad, errorOf("ExpiredTokenException"), stint.CodeUnavailable, "noauth", "expired"},
		{bad, errorOf("ValidationException"), stint.CodeUnavailable, "schema", "stint store migrate"},
		{bad, canceled("ValidationError"), stint.CodeUnavailable, "schema", "stint store migrate"},
		{bad, errorOf("UnknownOperationException"), stint.CodeUnavailable, "version", "transactions=false"},
		{bad, errorOf("AnErrorOfTomorrow"), stint.CodeUnavailable, "server", "documentation"},
		{http.StatusInternalServerError, errorOf("InternalServerError"), stint.CodeTimeout, "server", "unknown"},
		{http.StatusServiceUnavailable, errorOf("ServiceUnavailable"), stint.CodeTimeout, "server", "unknown"},
		{http.StatusBadGateway, "<html>", stint.CodeTimeout, "server", "unknown"},
		{http.StatusOK, "<html>", stint.CodeInternal, stint.KindGarbled, "endpoint"},
	} {
		t.Run(c.body, func(t *testing.T) {
			wantFailure(t, open(t, dynamotest.URL("limits", answering(t, c.status, c.body))), c.code, c.kind, c.text)
		})
	}
	for _, body := range []string{errorOf("TransactionConflictException"), errorOf("ReplicatedWriteConflictException"), canceled("None", "TransactionConflict")} {
		b := open(t, dynamotest.URL("limits", answering(t, bad, body)))
		swapped(t, b.SwapAll, []cas.Swap{swapOf("k", 0, "v"), swapOf("l", 0, "v")}, cas.Lost, cas.Lost)
	}
	b := open(t, dynamotest.URL("limits", answering(t, bad, errorOf("TransactionConflictException"))))
	swapped(t, b.Swap, []cas.Swap{swapOf("k", 0, "v")}, cas.Lost)
}

func TestForeignItems(t *testing.T) {
	setEnvironment(t)
	for _, item := range []string{`{}`, `{"state":{"S":"text"},"version":{"N":"1"}}`, `{"state":{"B":"AAAA"},"version":{"N":"-1"}}`, `{"state":{"B":"AAAA"},"version":{"N":"1.5"}}`} {
		b := open(t, dynamotest.URL("limits", answering(t, http.StatusOK, `{"Item":`+item+`}`)))
		loads := []cas.Load{{Key: "k"}}
		if _, err := b.Load(inTime(t), loads); err != nil {
			t.Errorf("%s: %v", item, err)
		}
		wantProblem(t, loads[0].Err, stint.KindWrongType, "delete the item")
	}
	batch := open(t, dynamotest.URL("limits", answering(t, http.StatusOK, `{"Responses":{"limits":[
		{"key":{"B":"c3RpbnQ6aw=="},"state":{"B":"AAAA"},"version":{"N":"7"}}, {"key":{"B":"c3RpbnQ6bA=="}}]}}`)))
	loads := []cas.Load{{Key: "k"}, {Key: "l"}} // stint:k and stint:l
	if _, err := batch.Load(inTime(t), loads); err != nil || loads[0].Err != nil || loads[0].Item.Version != 7 {
		t.Error(loads, err)
	}
	wantProblem(t, loads[1].Err, stint.KindWrongType, "delete the item")
	b := open(t, dynamotest.URL("limits", answering(t, http.StatusOK, `{"Responses":{"limits":[{"key":{"B":"AAAA"}}]}}`)))
	if _, err := b.Load(inTime(t), []cas.Load{{Key: "k"}, {Key: "l"}}); stint.CodeOf(err) != stint.CodeInternal {
		t.Error(err)
	}
}

// TestSignaturesHaveTheTimeOfThisProcess checks that the SDK does not hide a wrong clock:
// DynamoDB must refuse such a process, whose items it would delete too early.
func TestSignaturesHaveTheTimeOfThisProcess(t *testing.T) {
	setEnvironment(t)
	var signed []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed = append(signed, r.Header.Get("X-Amz-Date"))
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(s.Close)
	b := open(t, dynamotest.URL("limits", s.Listener.Addr().String()))
	for range 2 {
		loaded(t, b, "k")
	}
	for _, text := range signed {
		if at, err := time.Parse("20060102T150405Z", text); err != nil || time.Since(at).Abs() > 10*time.Minute {
			t.Error("a call is signed with the time of the server:", signed)
		}
	}
}

// TestMessagesHaveNoPassword gives the endpoint with a password, as a variable can have it.
func TestMessagesHaveNoPassword(t *testing.T) {
	setEnvironment(t)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://user:secret@127.0.0.1:1")
	_, err := open(t, "dynamodb://limits?region=eu-west-1").Load(inTime(t), []cas.Load{{Key: "k"}})
	wantProblem(t, err, "connection", "in eu-west-1 at 127.0.0.1:1")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// TestPartOfABatchIsThrottled reads two keys of which DynamoDB does one.
func TestPartOfABatchIsThrottled(t *testing.T) {
	setEnvironment(t)
	// The keys are stint:k and stint:l.
	body := `{"Responses":{"limits":[{"key":{"B":"c3RpbnQ6aw=="},"state":{"B":"AAAA"},"version":{"N":"7"}}]},
		"UnprocessedKeys":{"limits":{"Keys":[{"key":{"B":"c3RpbnQ6bA=="}}]}}}`
	b := open(t, dynamotest.URL("limits", answering(t, http.StatusOK, body)))
	loads := []cas.Load{{Key: "k"}, {Key: "l"}}
	if _, err := b.Load(inTime(t), loads); err != nil || loads[0].Item.Version != 7 || loads[0].Err != nil {
		t.Error(loads, err)
	}
	wantProblem(t, loads[1].Err, cas.KindThrottled, "lease the hot keys")
}

// TestThrottlingIsNoFailure checks that a guard does not take a server that asks for fewer
// calls for one that fails.
func TestThrottlingIsNoFailure(t *testing.T) {
	setEnvironment(t)
	o := options(t, dynamotest.URL("limits", answering(t, http.StatusBadRequest, errorOf("ProvisionedThroughputExceededException"))))
	o.Heartbeat = -1
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g, err := guard.New(s, guard.Options{Deadline: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	limit := stint.MustParseLimit("5/m")
	for range 30 {
		if d, err := g.Take(inTime(t), stint.Claim{Key: "k", Limit: limit, Cost: 1}); err != nil || !d.Degraded {
			t.Fatal(d, err)
		}
	}
	if opened := g.Stats().Shards[0].Opened; opened != 0 {
		t.Errorf("the circuit opened %d times", opened)
	}
	if stats := s.Stats(); stats.Throttled == 0 || !stats.Up {
		t.Errorf("%+v", stats)
	}
}

func TestCallsThatAreNotSent(t *testing.T) {
	setEnvironment(t)
	t.Run("no server", func(t *testing.T) {
		wantFailure(t, open(t, dynamotest.URL("limits", "127.0.0.1:1")), stint.CodeUnavailable, "connection", "endpoint")
	})
	t.Run("no TLS", func(t *testing.T) {
		address := answering(t, http.StatusOK, "{}")
		wantFailure(t, open(t, strings.Replace(dynamotest.URL("limits", address), "http:", "https:", 1)), stint.CodeUnavailable, "connection", "endpoint")
	})
	t.Run("an unknown certificate", func(t *testing.T) {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		wantFailure(t, open(t, strings.Replace(dynamotest.URL("limits", s.Listener.Addr().String()), "http:", "https:", 1)), stint.CodeUnavailable, "tls", "AWS_CA_BUNDLE")
	})
	t.Run("no credentials", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		wantFailure(t, open(t, dynamotest.URL("limits", "127.0.0.1:1")), stint.CodeUnavailable, "noauth", "AWS_ACCESS_KEY_ID")
	})
	t.Run("slow credentials", func(t *testing.T) {
		config := aws.Config{Region: "eu-west-1", Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			<-ctx.Done()
			return aws.Credentials{}, ctx.Err()
		})}
		b, err := newBackend(&Options{Table: "limits", Config: &config})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = b.Load(ctx, []cas.Load{{Key: "k"}})
		wantProblem(t, err, "noauth", "within the time of the call")
	})
}

func TestDeadServer(t *testing.T) {
	setEnvironment(t)
	s := dynamotest.Dynalite(t)
	migrate(t, s.URL("limits"))
	b := open(t, s.URL("limits"))
	k := swapOf("k", 0, "1")
	swapped(t, b.Swap, []cas.Swap{k}, cas.Done)
	s.Kill()
	redistest.Await(t, func() error { // until no connection is open
		_, err := b.Load(inTime(t), []cas.Load{{Key: "k"}})
		if stint.CodeOf(err) != stint.CodeUnavailable {
			return err
		}
		return nil
	})
	wantFailure(t, b, stint.CodeUnavailable, "connection", "endpoint")
	s.Restart()
	if got := comesBack(t, b); got.Version != k.Version {
		t.Error(got)
	}
}

// moto keeps its tables in memory, so a restart loses them.
func TestLostTable(t *testing.T) {
	setEnvironment(t)
	s := dynamotest.Moto(t)
	migrate(t, s.URL("limits"))
	b := open(t, s.URL("limits"))
	swapped(t, b.Swap, []cas.Swap{swapOf("k", 0, "1")}, cas.Done)
	s.Restart()
	comesUp(t, b)
	wantFailure(t, b, stint.CodeUnavailable, "table", "stint store migrate")
	migrate(t, s.URL("limits"))
	if got := comesBack(t, b); got.Version != 0 {
		t.Error(got)
	}
}

// comesUp waits until the server answers, be it with an error.
func comesUp(t *testing.T, b transacting) {
	t.Helper()
	redistest.Await(t, func() error {
		_, err := b.Load(inTime(t), []cas.Load{{Key: "k"}})
		if e, ok := errors.AsType[*stint.Error](err); ok && (e.Kind == "connection" || e.Code == stint.CodeTimeout) {
			return err
		}
		return nil
	})
}

// comesBack waits until the backend reads again, and returns the item of the key k.
func comesBack(t *testing.T, b transacting) cas.Item {
	t.Helper()
	loads := []cas.Load{{Key: "k"}}
	redistest.Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Load(ctx, loads)
		return err
	})
	return loads[0].Item
}

func TestFrozenServer(t *testing.T) {
	setEnvironment(t)
	s := dynamotest.Dynalite(t)
	migrate(t, s.URL("limits"))
	b := open(t, s.URL("limits"))
	k := swapOf("k", 0, "1")
	swapped(t, b.Swap, []cas.Swap{k}, cas.Done)
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun, swaps := time.Now(), []cas.Swap{swapOf("k", k.Version, "2")}
	_, err := b.Swap(ctx, swaps)
	if took := time.Since(begun); err != nil || stint.CodeOf(swaps[0].Err) != stint.CodeTimeout || swaps[0].Outcome != cas.Unknown || took > 5*time.Second {
		t.Error(took, swaps[0].Outcome, swaps[0].Err, err)
	}
	s.Thaw() // the server then handles what was sent
	if got := comesBack(t, b); got.Version != k.Version && got.Version != swaps[0].Version {
		t.Error(got)
	}
}

// A slow server is waited for until the deadline of a call. A call beyond it fails, and is
// charged once at most although its write arrives later.
func TestSlowServer(t *testing.T) {
	setEnvironment(t)
	emulator := dynamotest.Dynalite(t)
	migrate(t, emulator.URL("limits"))
	proxy := redistest.Proxy(t, emulator.Addr())
	o := options(t, dynamotest.URL("limits", proxy.Addr()))
	o.Heartbeat = -1
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	claim := stint.Claim{Key: "k", Limit: stint.MustParseLimit("20/d"), Cost: 1}
	const delay = 200 * time.Millisecond // in each direction
	proxy.Delay(delay)
	begun := time.Now()
	if d, err := s.Take(inTime(t), claim); err != nil || !d.Allowed || time.Since(begun) < 2*delay {
		t.Error(time.Since(begun), d, err)
	}
	admitted, failed := int64(1), int64(0)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), delay/2)
		_, err := s.Take(ctx, claim)
		cancel()
		if code := stint.CodeOf(err); code != stint.CodeTimeout && code != stint.CodeUnavailable {
			t.Error(err)
		}
		failed++
	}
	proxy.Delay(0)
	redistest.Await(t, func() error {
		_, err := s.Take(inTime(t), claim)
		return err
	})
	admitted++
	claim.Cost = 0
	d, err := s.Take(inTime(t), claim)
	if charged := 20 - d.Remaining; err != nil || charged < admitted || charged > admitted+failed {
		t.Error("charged", charged, "admitted", admitted, "failed", failed, err)
	}
}

func TestBrokenConnections(t *testing.T) {
	setEnvironment(t)
	s := dynamotest.Dynalite(t)
	migrate(t, s.URL("limits"))
	proxy := redistest.Proxy(t, s.Addr())
	b := open(t, dynamotest.URL("limits", proxy.Addr()))
	k := swapOf("k", 0, "1")
	swapped(t, b.Swap, []cas.Swap{k}, cas.Done)
	proxy.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	swaps := []cas.Swap{swapOf("k", k.Version, "2")}
	if _, err := b.Swap(ctx, swaps); err != nil || stint.CodeOf(swaps[0].Err) != stint.CodeTimeout || swaps[0].Outcome != cas.Unknown {
		t.Error(swaps[0].Outcome, swaps[0].Err, err)
	}
	proxy.Heal()
	if got := comesBack(t, b); got.Version != swaps[0].Version {
		t.Error("the write is lost:", got)
	}
	proxy.Reset()
	_, err := b.Load(inTime(t), []cas.Load{{Key: "k"}})
	if code := stint.CodeOf(err); code != stint.CodeTimeout && code != stint.CodeUnavailable {
		t.Error(err)
	}
	proxy.Heal()
	comesBack(t, b)
}

// TestLostAnswersChargeOnce has the answers of writes be lost, and checks that each check
// is charged at most once.
func TestLostAnswersChargeOnce(t *testing.T) {
	setEnvironment(t)
	emulator := dynamotest.Dynalite(t)
	migrate(t, emulator.URL("limits"))
	var puts atomic.Int64
	flaky := httptest.NewServer(losing(t, emulator.Addr(), &puts))
	t.Cleanup(flaky.Close)
	o := options(t, dynamotest.URL("limits", flaky.Listener.Addr().String()))
	o.Heartbeat = -1
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit := stint.MustParseLimit("20/h")
	allowed := 0
	for range 40 {
		d, err := s.Take(inTime(t), stint.Claim{Key: "k", Limit: limit, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed != 20 || s.Stats().Unknown == 0 {
		t.Errorf("%d of 20 are allowed, after %d writes: %+v", allowed, puts.Load(), s.Stats())
	}
}

// losing forwards requests, and breaks the connection in place of every third answer to a
// write.
func losing(t *testing.T, address string, puts *atomic.Int64) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forward := r.Clone(r.Context())
		forward.URL.Scheme, forward.URL.Host, forward.RequestURI = "http", address, ""
		answer, err := http.DefaultTransport.RoundTrip(forward)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutItem") && puts.Add(1)%3 == 0 {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})
}

// A read whose connection breaks is sent once more, and not again.
func TestABrokenReadIsSentOnceMore(t *testing.T) {
	setEnvironment(t)
	emulator := dynamotest.Dynalite(t)
	migrate(t, emulator.URL("limits"))
	var reads, broken atomic.Int64
	forward := losing(t, emulator.Addr(), &atomic.Int64{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "GetItem") {
			if reads.Add(1); broken.Add(-1) >= 0 {
				panic(http.ErrAbortHandler)
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	b := open(t, dynamotest.URL("limits", s.Listener.Addr().String()))
	for _, loads := range [][]cas.Load{{{Key: "k"}}, {{Key: "k"}, {Key: "l"}}} {
		for breaks, fails := range []bool{false, false, true} {
			broken.Store(int64(breaks))
			reads.Store(0)
			_, err := b.Load(inTime(t), slices.Clone(loads))
			if want := min(int64(breaks)+1, 2); (err != nil) != fails || fails && stint.CodeOf(err) != stint.CodeTimeout || reads.Load() != want {
				t.Errorf("%d keys, %d connections broke: sent %d times: %v", len(loads), breaks, reads.Load(), err)
			}
		}
	}
}

func TestStopEndsCalls(t *testing.T) {
	setEnvironment(t)
	arrived := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is only then seen
		close(arrived)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	b := open(t, dynamotest.URL("limits", s.Listener.Addr().String()))
	failed := make(chan error)
	go func() {
		_, err := b.Load(context.Background(), []cas.Load{{Key: "k"}})
		failed <- err
	}()
	<-arrived
	b.Stop("")
	if err := <-failed; stint.CodeOf(err) != stint.CodeTimeout {
		t.Error(err)
	}
}

func TestMigrate(t *testing.T) {
	eachEmulator(t, func(t *testing.T, e emulator) {
		errs := make(chan error)
		for range 3 {
			o := options(t, e.URL("limits"))
			go func() { errs <- Migrate(context.Background(), o) }()
		}
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		foreign(t, e.URL("foreign"))
		wantProblem(t, Migrate(inTime(t), options(t, e.URL("foreign"))), "schema", "does not exist yet")
		_, err := open(t, e.URL("foreign")).Load(inTime(t), []cas.Load{{Key: "k"}})
		wantProblem(t, err, "schema", "stint store migrate")
	})
}

// TestTimeToLiveThatAnotherProcessEnables has UpdateTimeToLive be refused, as DynamoDB does
// when it has been enabled since the question.
func TestTimeToLiveThatAnotherProcessEnables(t *testing.T) {
	setEnvironment(t)
	for status, kind := range map[string]stint.Kind{"ENABLED": "", "DISABLING": "table"} {
		asked := false
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); {
			case operation == "DescribeTable":
				_, _ = w.Write([]byte(`{"Table":{"TableStatus":"ACTIVE","KeySchema":[{"AttributeName":"key","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"key","AttributeType":"B"}]}}`))
			case operation == "DescribeTimeToLive" && !asked:
				asked = true
				_, _ = w.Write([]byte(`{"TimeToLiveDescription":{"TimeToLiveStatus":"DISABLED"}}`))
			case operation == "DescribeTimeToLive":
				_, _ = fmt.Fprintf(w, `{"TimeToLiveDescription":{"AttributeName":"expires","TimeToLiveStatus":%q}}`, status)
			default:
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(errorOf("ValidationException")))
			}
		}))
		t.Cleanup(s.Close)
		err := Migrate(inTime(t), options(t, dynamotest.URL("limits", s.Listener.Addr().String())))
		if kind == "" && err != nil {
			t.Error(err)
		} else if kind != "" {
			wantProblem(t, err, kind, "in an hour")
		}
	}
}

// foreign makes a table of another program.
func foreign(t *testing.T, address string) {
	t.Helper()
	b := open(t, address)
	_, err := b.api.CreateTable(inTime(t), &dynamodb.CreateTableInput{
		TableName: &b.table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, func() error {
		table, err := b.describe(inTime(t))
		if err == nil && table.TableStatus != types.TableStatusActive {
			err = errors.New("the table is not ready")
		}
		return err
	})
}
