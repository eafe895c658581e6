package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestTakeAnswersWithEveryNumber(t *testing.T) {
	s := run(t, Config{})
	const body = `{"key":"user:42","limit":{"algorithm":"token_bucket","capacity":2,"refill_rate":2},"cost":2}`
	first := s.post("http", "/v1/take", body)
	if first.status != http.StatusOK || first.header.Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %v", first.status, first.header)
	}
	wantJSON(t, first.body, fmt.Sprintf(`{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":0,"reset_after_ms":1000,"delay_ms":0,
		"never":false,"degraded":false,"at_us":%d,"rule":"","limits":[{"rule":"","name":"token_bucket","allowed":true,"limit":2,"remaining":0,
		"retry_after_ms":0,"reset_after_ms":1000,"delay_ms":0,"never":false,"degraded":false,"at_us":%[1]d}]}`, start))
	s.clock.add(time.Microsecond)
	second := s.post("http", "/v1/take", body)
	got := second.decoded(t)
	if second.status != http.StatusOK || got["allowed"] != false {
		t.Errorf("a denial is a decision: status %d, %s", second.status, second.body)
	}
	if got["retry_after_ms"] != 1000.0 {
		t.Errorf("999.999 ms is shown as %v, want it rounded up", got["retry_after_ms"])
	}
}

func TestCostOverLimitIsNever(t *testing.T) {
	s := run(t, Config{})
	got := s.post("http", "/v1/take", `{"key":"k","limit":"2/s","cost":3}`).decoded(t)
	if _, shown := got["retry_after_ms"]; shown || got["never"] != true || got["allowed"] != false {
		t.Errorf("%v", got)
	}
}

func TestGroupIsChargedWholeOrNot(t *testing.T) {
	s := run(t, Config{})
	const group = `{"key":"k","limits":["2/s",{"limit":1,"window":"1h"}]}`
	if got := s.post("http", "/v1/take", group).decoded(t); got["allowed"] != true || got["remaining"] != 0.0 {
		t.Errorf("the first: %v", got)
	}
	got := s.post("http", "/v1/take", group).decoded(t)
	lines := got["limits"].([]any)
	perSecond := lines[0].(map[string]any)
	if got["allowed"] != false || perSecond["allowed"] != true || perSecond["remaining"] != 1.0 {
		t.Errorf("the second is denied by the hour and charges the second nothing: %v", got)
	}
	if got["retry_after_ms"] != 3_600_000.0 || lines[1].(map[string]any)["name"] != "token_bucket:1h" {
		t.Errorf("the denying claim is not the binding one: %v", got)
	}
}

func TestRefundNamesItsTake(t *testing.T) {
	s := run(t, Config{})
	const limit = `"limit":{"algorithm":"fixed_window","limit":3,"window":"1m"}`
	at := s.post("http", "/v1/take", `{"key":"k",`+limit+`,"cost":3}`).decoded(t)["at_us"].(float64)
	back := s.post("http", "/v1/take", fmt.Sprintf(`{"key":"k",%s,"cost":-2,"at_us":%d}`, limit, int64(at)))
	if got := back.decoded(t); got["allowed"] != true || got["remaining"] != 2.0 {
		t.Errorf("in its window: %s", back.body)
	}
	s.clock.add(time.Minute)
	s.post("http", "/v1/take", `{"key":"k",`+limit+`}`)
	back = s.post("http", "/v1/take", fmt.Sprintf(`{"key":"k",%s,"cost":-1,"at_us":%d}`, limit, int64(at)))
	if got := back.decoded(t); got["remaining"] != 2.0 {
		t.Errorf("a take of the window before is not refunded: %s", back.body)
	}
}

func TestDelayIsReportedAndNotServed(t *testing.T) {
	s := run(t, Config{})
	const body = `{"key":"k","limit":{"algorithm":"leaky_bucket","limit":1,"window":"1h","queue":5}}`
	s.post("http", "/v1/take", body)
	if got := s.post("http", "/v1/take", body).decoded(t); got["allowed"] != true || got["delay_ms"] != 3_600_000.0 {
		t.Errorf("%v", got)
	}
}

// Without max_wait, the queue of 5 has room for the third and the fourth request.
func TestMaxWaitBoundsTheDelayOfATake(t *testing.T) {
	s := run(t, Config{})
	const body = `{"key":"k","limit":{"algorithm":"leaky_bucket","limit":1,"window":"10s","queue":5,"max_wait":"15s"}}`
	for i, want := range []struct {
		allowed      bool
		delay, retry float64
	}{{true, 0, 0}, {true, 10_000, 0}, {false, 0, 5000}, {false, 0, 5000}} {
		got := s.post("http", "/v1/take", body).decoded(t)
		if got["allowed"] != want.allowed || got["delay_ms"] != want.delay || got["retry_after_ms"] != want.retry {
			t.Errorf("%d: %v, want %+v", i, got, want)
		}
	}
}

func TestBadTakesSayWhatIsWrong(t *testing.T) {
	s := run(t, Config{})
	big := strings.Repeat("k", 5000)
	for name, c := range map[string]struct{ body, want string }{
		"nothing":                 {``, "unexpected end of JSON input"},
		"no JSON":                 {`key=1`, "is not JSON"},
		"NaN":                     {`{"key":"k","limit":"1/s","cost":NaN}`, "is not JSON"},
		"a list":                  {`[]`, "a JSON object is expected"},
		"more behind it":          {`{"key":"k","limit":"1/s"}{}`, "after top-level value"},
		"cut off":                 {`{"key":"k","limit":"1/s"`, "unexpected end of JSON input"},
		"invalid UTF-8":           {"{\"key\":\"\xff\",\"limit\":\"1/s\"}", "not valid UTF-8"},
		"half a surrogate":        {`{"key":"\ud800","limit":"1/s"}`, "half of a surrogate pair"},
		"misspelt field":          {`{"key":"k","limit":"1/s","csot":1}`, "did you mean cost?"},
		"field of other case":     {`{"Key":"k","limit":"1/s"}`, "did you mean key?"},
		"field twice":             {`{"key":"k","key":"j","limit":"1/s"}`, `"key": is given twice`},
		"no key":                  {`{"limit":"1/s"}`, "key: is empty"},
		"empty key":               {`{"key":"","limit":"1/s"}`, "key: is empty"},
		"number as key":           {`{"key":42,"limit":"1/s"}`, "key: must be a string"},
		"null as key":             {`{"key":null,"limit":"1/s"}`, "key: must be a string"},
		"control character":       {`{"key":"a\u0000b","limit":"1/s"}`, "control character"},
		"long key":                {`{"key":"` + big + `","limit":"1/s"}`, "key: is 5000 bytes long"},
		"no limit":                {`{"key":"k"}`, "give either limit, or limits"},
		"limit and limits":        {`{"key":"k","limit":"1/s","limits":["1/m"]}`, "give either limit, or limits"},
		"no limits":               {`{"key":"k","limits":[]}`, "limits: has 0 entries"},
		"null limits":             {`{"key":"k","limits":null}`, "limits: must be a list"},
		"too many limits":         {`{"key":"k","limits":[` + strings.Repeat(`"1/s",`, 32) + `"1/s"]}`, "limits: has 33 entries"},
		"limits are no list":      {`{"key":"k","limits":"1/s"}`, "limits: must be a list"},
		"the same state twice":    {`{"key":"k","limits":["1/s","2/s"]}`, "two are named token_bucket:1s"},
		"zero limit":              {`{"key":"k","limit":{"limit":0,"window":"1s"}}`, "limit: "},
		"negative limit":          {`{"key":"k","limit":{"limit":-1,"window":"1s"}}`, "-1"},
		"overflowing limit":       {`{"key":"k","limit":{"limit":9223372036854775808,"window":"1s"}}`, "limit: "},
		"misspelt limit field":    {`{"key":"k","limit":{"limit":1,"windw":"1s"}}`, "window"},
		"second limit is wrong":   {`{"key":"k","limits":["1/s","1/y"]}`, "limits[1]: "},
		"fractional cost":         {`{"key":"k","limit":"1/s","cost":1.5}`, "cost: 1.5 is not a whole number"},
		"cost of 2^63":            {`{"key":"k","limit":"1/s","cost":9223372036854775808}`, "cost: 9223372036854775808 is not"},
		"the cost that forgets":   {`{"key":"k","limit":"1/s","cost":-9223372036854775808}`, "cost: -9223372036854775808 is out of range"},
		"cost as text":            {`{"key":"k","limit":"1/s","cost":"1"}`, `cost: "1" is not a whole number`},
		"null cost":               {`{"key":"k","limit":"1/s","cost":null}`, "cost: null is not a whole number"},
		"exponent":                {`{"key":"k","limit":"1/s","cost":1e3}`, "cost: 1e3 is not a whole number"},
		"time without a refund":   {`{"key":"k","limit":"1/s","cost":1,"at_us":5}`, "at_us: belongs to a cost below 0"},
		"negative time":           {`{"key":"k","limit":"1/s","cost":-1,"at_us":-5}`, "at_us: -5 is not"},
		"time in another century": {`{"key":"k","limit":"1/s","cost":-1,"at_us":9007199254740992}`, "at_us: 9007199254740992 is not"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.post("http", "/v1/take", c.body)
			if got.status != http.StatusBadRequest || !strings.Contains(got.errorMessage(), c.want) {
				t.Errorf("status %d: %s\nwant 400 with %q", got.status, got.body, c.want)
			}
		})
	}
}
