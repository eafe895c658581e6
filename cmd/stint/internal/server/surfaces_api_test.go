package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// numbers is a decision in the form of the API.
type numbers struct {
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS *int64 `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
	Never        bool   `json:"never"`
	Degraded     bool   `json:"degraded"`
	AtUS         int64  `json:"at_us"`
}

func (n *numbers) String() string {
	retry := "never"
	if n.RetryAfterMS != nil {
		retry = fmt.Sprint(*n.RetryAfterMS)
	}
	return fmt.Sprintf("%v %d/%d retry %s %v reset %d delay %d at %d %v", n.Allowed, n.Remaining, n.Limit, retry, n.Never, n.ResetAfterMS, n.DelayMS, n.AtUS, n.Degraded)
}

// inAPI is a list of decisions in the form of the API: the binding decision, then that of each
// limit.
func inAPI(d decided) string {
	said := make([]string, 0, 4)
	for _, one := range append([]stint.Decision{d.combined}, d.lines()...) {
		n := numbers{Allowed: one.Allowed, Limit: one.Limit, Remaining: one.Remaining, Never: one.RetryAfter == stint.Never, AtUS: one.At}
		n.ResetAfterMS, n.DelayMS = up(one.ResetAfter, time.Millisecond), up(one.Delay, time.Millisecond)
		if retry := up(one.RetryAfter, time.Millisecond); !n.Never {
			n.RetryAfterMS = &retry
		}
		said = append(said, n.String())
	}
	return strings.Join(said, "; ")
}

// lines is the decision of each limit.
func (d decided) lines() []stint.Decision {
	if d.each == nil {
		return []stint.Decision{d.combined}
	}
	return d.each
}

// up rounds a duration up to whole units.
func up(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

func saidByAPI(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		numbers

		Limits []numbers
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	said := []string{answer.String()}
	for i := range answer.Limits {
		said = append(said, answer.Limits[i].String())
	}
	return strings.Join(said, "; ")
}

func (q *question) checkBody() string {
	return fmt.Sprintf(`{"attributes":{"api_key":%q,"path":"/said/%d"},"cost":%d}`, q.key, q.index, q.cost)
}

func (q *question) takeBody(cost string) string {
	body := fmt.Sprintf(`{"key":%q,"limits":[%s]%s`, q.key+q.shape.name, strings.Join(q.shape.limits, ","), cost)
	if q.at != 0 {
		body += fmt.Sprintf(`,"at_us":%d`, q.at)
	}
	return body + "}"
}

func (q *question) costMember() string { return fmt.Sprintf(`,"cost":%d`, q.cost) }

func askCheck(t *testing.T, w *world, q question, d decided) (got, want string) {
	return saidByAPI(t, w.post("http", "/v1/check", q.checkBody()).body), inAPI(d)
}

func askTake(t *testing.T, w *world, q question, d decided) (got, want string) {
	return saidByAPI(t, w.post("http", "/v1/take", q.takeBody(q.costMember())).body), inAPI(d)
}

func askByName(t *testing.T, w *world, q question, d decided) (got, want string) {
	path, cost := "/v1/take", q.costMember()
	switch {
	case q.cost == 0:
		path, cost = "/v1/peek", ""
	case q.cost < 0:
		path, cost = "/v1/refund", fmt.Sprintf(`,"cost":%d`, -q.cost)
	}
	return saidByAPI(t, w.post("http", path, q.takeBody(cost)).body), inAPI(d)
}

func askPeekOfRules(t *testing.T, w *world, q question, d decided) (got, want string) {
	if q.cost != 0 {
		return askCheck(t, w, q, d)
	}
	body := strings.TrimSuffix(q.checkBody(), `,"cost":0}`) + "}"
	return saidByAPI(t, w.post("http", "/v1/peek", body).body), inAPI(d)
}

// inBatch asks in a batch with other items, one of which is invalid.
func inBatch(t *testing.T, w *world, item string) string {
	t.Helper()
	other := `{"key":"other","limit":"9/s"}`
	return answersOf(t, w.post("http", "/v1/batch", batchOf(other, `{"key":""}`, item, other)))[2]
}

func askCheckInBatch(t *testing.T, w *world, q question, d decided) (got, want string) {
	return saidByAPI(t, inBatch(t, w, q.checkBody())), inAPI(d)
}

func askTakeInBatch(t *testing.T, w *world, q question, d decided) (got, want string) {
	return saidByAPI(t, inBatch(t, w, q.takeBody(q.costMember()))), inAPI(d)
}
