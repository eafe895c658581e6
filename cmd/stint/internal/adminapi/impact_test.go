package adminapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
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

// sealedBy returns the sample of another node on which each caller had some requests.
func (f *fixture) sealedBy(callers, each int) string {
	f.t.Helper()
	one := f.Sample
	defer func() { f.Sample = one }()
	f.traffic(callers, each)
	f.Sample.Join("the secret of the fleet")
	f.time = f.time.Add(time.Millisecond)
	set, _ := f.keeper.Current()
	for i := range callers * each {
		a := rule.Map{"api_key": fmt.Sprint("sk_live_customer_", i%callers), "path": "/orders"}
		o := f.decide(a, 1)
		f.Sample.Add(set.Attributes(), a, 1, &o)
	}
	return f.want(200, "GET", "/v1/sample", "").at(f.t, "sample").(string)
}

func TestTheImpactOverSeveralNodes(t *testing.T) {
	f := newFixture(t, "rules: [{id: orders, limit: 1000, window: 60}]\n")
	f.traffic(10, 50)
	f.want(409, "GET", "/v1/sample", "") // no secret is shared
	f.Sample.Join("the secret of the fleet")
	for i := range 300 {
		a := rule.Map{"api_key": fmt.Sprint("sk_live_customer_", i%10), "path": "/orders"}
		o := f.decide(a, 1)
		set, _ := f.keeper.Current()
		f.Sample.Add(set.Attributes(), a, 1, &o)
	}
	const strict = "rules: [{id: orders, limit: 40, window: 60}]\n"
	sealed := f.sealedBy(10, 30)
	whole := fmt.Sprintf(`{"text":%q,"samples":[%q]}`, strict, sealed)
	if got := f.want(200, "POST", "/rules/validate", strict); got.at(t, "impact.denied") != 0.0 || got.at(t, "impact.nodes") != 1.0 {
		t.Error(got.body)
	}
	got := f.want(200, "POST", "/rules/validate", whole)
	if got.at(t, "impact.denied") != 200.0 || got.at(t, "impact.nodes") != 2.0 || got.at(t, "impact.allowed") != 600.0 || strings.Contains(got.body, "customer") {
		t.Error(got.body)
	}
	if got := f.want(409, "PUT", "/rules", whole); got.at(t, "error.impact.denied") != 200.0 {
		t.Error(got.body)
	}
	files := fmt.Sprintf(`{"files":[{"name":"rules.yaml","text":%q}],"samples":[%q]}`, strict, sealed)
	if got := f.want(200, "PUT", "/rules?force=true", files); got.at(t, "impact.denied") != 200.0 {
		t.Error(got.body)
	}
	f.wantText("limit: 40", true)
	if got := f.want(200, "POST", "/rules/rollback?dry_run=true", fmt.Sprintf(`{"version":1,"samples":[%q]}`, sealed)); got.at(t, "impact.nodes") != 2.0 {
		t.Error(got.body)
	}
	f.Sample = nil
	f.want(404, "GET", "/v1/sample", "")
	f.want(400, "POST", "/rules/validate", whole)
}

func TestSamplesThatCannotBeUsedAreRefused(t *testing.T) {
	f := newFixture(t, wide)
	f.traffic(1, 1)
	f.Sample.Join("the secret of the fleet")
	sealed := f.sealedBy(1, 1)
	for want, samples := range map[string]string{
		"samples: is not a list of at most 63 samples":       `"AAAA"`,
		"63 samples (copy each one from GET /v1/sample":      `["not base64"]`,
		"sample 1 is no sealed sample":                       `["AAAA"]`,
		"sample 2 is of a node whose requests count already": fmt.Sprintf("[%q,%q]", sealed, sealed),
		"samples: is not a list of at most 63":               "[" + strings.Repeat(`"",`, 63) + `""]`,
	} {
		for _, c := range []struct{ method, path, body string }{
			{"PUT", "/rules", `{"text":"rules: []","samples":` + samples + "}"},
			{"POST", "/rules/validate", `{"text":"rules: []","samples":` + samples + "}"},
			{"POST", "/rules/rollback", `{"version":1,"samples":` + samples + "}"},
		} {
			if got := f.want(400, c.method, c.path, c.body); !strings.Contains(got.body, want) {
				t.Errorf("%s %s: %s, want %s", c.method, c.path, got.body, want)
			}
		}
	}
	for _, query := range []string{"?bytes=1", "?bytes=9000000", "?bytes=many"} {
		f.want(400, "GET", "/v1/sample"+query, "")
	}
	f.want(200, "GET", "/v1/sample?bytes=65536", "")
	f.want(200, "PUT", "/rules", `{"text":"rules: []","samples":[]}`)
	f.want(200, "PUT", "/rules", `{"text":"rules: []"}`)
	for _, body := range []string{`{"samples":[]}`, `{"text":"rules: []","files":[],"samples":[]}`, `{"rules":[],"samples":[]}`} {
		if got := f.want(400, "PUT", "/rules", body); !strings.Contains(got.body, "give the rules as text or as files") {
			t.Error(got.body)
		}
	}
}

// However many viewers ask for samples and do not read them, the memory of the answers is bounded.
func TestSamplesAreSentInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, wide)
		f.traffic(1, 1)
		f.Sample.Join("the secret of the fleet")
		shrink, release, err := f.readBodies.reserveAnswer(t.Context(), maxBody) // of a client that reads slowly
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := f.want(503, "GET", "/v1/sample", ""); got.at(t, "error.code") != "BUSY" || time.Since(began) != bodyWait {
			t.Errorf("after %v: %s", time.Since(began), got.body)
		}
		shrink(1 << 20) // that answer is small
		f.want(503, "GET", "/v1/sample", "")
		f.want(200, "GET", "/v1/sample?bytes=65536", "")
		release()
		f.want(200, "GET", "/v1/sample", "")
		if !f.readBodies.held.TryAcquire(maxBody) {
			t.Error("room is not released")
		}
	})
}

func TestTheImpactSaysHowManyNodesAreMissing(t *testing.T) {
	f, source := newCanaryFixture(t)
	f.Sample = impact.New(func() time.Time { return f.time })
	const path = "impact.announced"
	for range 3 {
		source.nodes = append(source.nodes, ruleset.Node{ID: fmt.Sprint(len(source.nodes))})
	}
	if got := f.want(200, "POST", "/rules/validate", "rules: []"); got.at(t, path) != 3.0 || got.at(t, "impact.nodes") != 1.0 {
		t.Error(got.body)
	}
	source.err = errors.New("down")
	if got := f.want(200, "POST", "/rules/validate", "rules: []"); strings.Contains(got.body, "announced") {
		t.Error(got.body)
	}
}
