package migrating

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func ululeBefore(hello http.Handler) (http.Handler, error) {
	rate, err := limiter.NewRateFromFormatted("5-M")
	if err != nil {
		return nil, err
	}
	middleware := stdlib.NewMiddleware(limiter.New(memory.NewStore(), rate))
	return middleware.Handler(hello), nil
}

func ululeAfter(hello http.Handler) (http.Handler, error) {
	fixed, err := stint.Spec{Algorithm: stint.FixedWindow, Limit: 5, Window: time.Minute}.Compile()
	if err != nil {
		return nil, err
	}
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "hello", fixed)
	if err != nil {
		return nil, err
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		return nil, err
	}
	return limited.Wrap(hello), nil
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

// get returns the answer to a request of a client.
func get(handler http.Handler, client string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = client
	handler.ServeHTTP(w, r)
	return w
}

const ann, annsOtherAddress = "[2001:db8::1]:1234", "[2001:db8::2]:1234"

func TestUluleAnswers(t *testing.T) {
	before, err := ululeBefore(hello)
	if err != nil {
		t.Fatal(err)
	}
	var last *httptest.ResponseRecorder
	for range 6 {
		last = get(before, ann)
	}
	if last.Code != 429 || last.Header().Get("Retry-After") != "" || last.Header().Get("X-RateLimit-Limit") != "5" {
		t.Errorf("ulule/limiter answers %d, %v", last.Code, last.Header())
	}
	if w := get(before, annsOtherAddress); w.Code != 200 {
		t.Errorf("ulule/limiter counts a client's addresses together: %d", w.Code)
	}
}

func TestStintAnswersLikeUlule(t *testing.T) {
	after, err := ululeAfter(hello)
	if err != nil {
		t.Fatal(err)
	}
	var last *httptest.ResponseRecorder
	for range 11 { // a minute may begin between two requests
		last = get(after, ann)
	}
	if last.Code != 429 || last.Header().Get("Retry-After") == "" || last.Header().Get("X-RateLimit-Limit") != "5" {
		t.Errorf("Stint answers %d, %v", last.Code, last.Header())
	}
	if w := get(after, annsOtherAddress); w.Code != 429 {
		t.Errorf("Stint counts the addresses of one /64 apart: %d", w.Code)
	}
}

// ulule/limiter counts denied requests too, and its limits of one store share a key.
func TestUluleCounts(t *testing.T) {
	store := memory.NewStore()
	perMinute := limiter.New(store, limiter.Rate{Period: time.Minute, Limit: 5})
	perHour := limiter.New(store, limiter.Rate{Period: time.Hour, Limit: 7})
	for range 8 {
		if _, err := perMinute.Get(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := perHour.Peek(t.Context(), "ann"); !c.Reached || err != nil {
		t.Errorf("ulule/limiter answers %+v, %v", c, err)
	}
}
