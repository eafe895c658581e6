package adminapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

// traffic sends requests of some callers; all are allowed.
func (f *fixture) traffic(callers, each int) {
	f.t.Helper()
	f.Sample, f.MostDenied = impact.New(func() time.Time { return f.time }), 0.05
	set, _ := f.keeper.Current()
	for i := range callers * each {
		a := rule.Map{"api_key": fmt.Sprint("sk_live_customer_", i%callers), "path": "/orders"}
		o := f.decide(a, 1)
		if !o.Allowed() {
			f.t.Fatal("denied")
		}
		f.Sample.Add(set.Attributes(), a, 1, &o)
	}
}

const wide = "rules: [{id: orders, limit: 100, window: 60}]\n"

func TestASetThatDeniesTooMuchIsRefusedUnlessForced(t *testing.T) {
	f := newFixture(t, wide)
	f.traffic(10, 50)
	const typo = "rules: [{id: orders, limit: 10, window: 60}]\n"
	got := f.want(409, "PUT", "/rules", typo)
	if got.at(t, "error.code") != "IMPACT" || got.at(t, "error.impact.denied") != 400.0 || got.at(t, "error.impact.callers") != 10.0 ||
		!strings.Contains(got.body, `"rules":[{"rule":"orders","denied":400}]`) || !strings.Contains(got.body, `{"rule":"orders","key":"sk_li`) || strings.Contains(got.body, "customer") {
		t.Error(got.body)
	}
	if f.text() != wide {
		t.Error(f.text())
	}
	if got := f.want(200, "PUT", "/rules?dry_run=true", typo); got.at(t, "impact.share") != 0.8 {
		t.Error(got.body)
	}
	if got := f.want(200, "POST", "/rules/validate", typo); got.at(t, "impact.share") != 0.8 {
		t.Error(got.body)
	}
	f.want(200, "PUT", "/rules", strings.Replace(wide, "100", "49", 1)) // one in fifty
	f.want(200, "PUT", "/rules?force=true", typo)
	if got := f.want(200, "GET", "/audit", ""); !strings.Contains(got.body, `"result":"IMPACT"`) || !strings.Contains(got.body, `"forced":true`) {
		t.Error(got.body)
	}
	f.want(200, "PUT", "/rules?force=true", wide)
	f.want(200, "PUT", "/rules?impact=off", typo) // impact=off forces the change
	if got := f.want(200, "GET", "/audit?n=1", ""); !strings.Contains(got.body, `"forced":true`) {
		t.Error(got.body)
	}
}

func TestAChangeOfOneRuleShowsItsImpact(t *testing.T) {
	f := newFixture(t, wide)
	f.traffic(10, 50)
	f.want(409, "PUT", "/rules/orders?impact=refuse", `{"limit":10,"window":60}`)
	if got := f.want(200, "PUT", "/rules/orders", `{"limit":10,"window":60}`); got.at(t, "impact.denied") != 400.0 {
		t.Error(got.body)
	}
	if got := f.want(200, "PUT", "/rules/orders?impact=off", `{"limit":9,"window":60}`); got.at(t, "impact") != nil {
		t.Error(got.body)
	}
	f.want(400, "PUT", "/rules/orders?impact=some", `{"limit":9,"window":60}`)
	f.want(409, "POST", "/rules/rollback?impact=refuse", `{"version":2}`)
	f.want(200, "POST", "/rules/rollback", `{"version":1}`)
}

func TestFewRequestsRefuseNothing(t *testing.T) {
	f := newFixture(t, wide)
	f.traffic(1, 80)
	f.want(200, "PUT", "/rules", "rules: [{id: orders, limit: 1, window: 60}]\n")
}
