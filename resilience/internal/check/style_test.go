package check_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/deadline"
	"github.com/stintdev/stint/resilience/retry"
)

// files parses the Go files of every resilience package, by the package's folder.
func files(t *testing.T) map[string][]*ast.File {
	t.Helper()
	paths, err := filepath.Glob("../../*/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	all := map[string][]*ast.File{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Base(filepath.Dir(path))
		all[folder] = append(all[folder], file)
	}
	return all
}

// Every exported enum has a String method with a text of its own for each constant, and
// "unknown" for every other value.
func TestEnumsHaveNames(t *testing.T) {
	texts := map[string]func(uint8) string{
		"adaptive.Outcome": func(n uint8) string { return adaptive.Outcome(n).String() },
		"breaker.Outcome":  func(n uint8) string { return breaker.Outcome(n).String() },
		"breaker.Reason":   func(n uint8) string { return breaker.Reason(n).String() },
		"breaker.State":    func(n uint8) string { return breaker.State(n).String() },
		"client.Part":      func(n uint8) string { return client.Part(n).String() },
		"retry.Jitter":     func(n uint8) string { return retry.Jitter(n).String() },
		"retry.Stop":       func(n uint8) string { return retry.Stop(n).String() },
	}
	enums := map[string]int{}
	for folder, parsed := range files(t) {
		for name, constants := range countConstants(parsed) {
			enums[folder+"."+name] = constants
		}
	}
	if got, want := slices.Sorted(maps.Keys(enums)), slices.Sorted(maps.Keys(texts)); !slices.Equal(got, want) {
		t.Fatalf("the enums are %v, and %v are tested", got, want)
	}
	for name, text := range texts {
		seen := map[string]bool{}
		for n := range 256 {
			switch s := text(uint8(n)); {
			case s == "unknown":
			case s == "" || seen[s]:
				t.Errorf("%s: the text of %d is %q, which is empty or also that of another value", name, n, s)
			default:
				seen[s] = true
			}
		}
		if len(seen) != enums[name] {
			t.Errorf("%s: %d texts for %d constants", name, len(seen), enums[name])
		}
	}
}

// countConstants returns how many exported constants each exported type based on uint8
// has.
func countConstants(parsed []*ast.File) map[string]int {
	constants := map[string]int{}
	for _, spec := range specs(parsed) {
		if s, ok := spec.(*ast.TypeSpec); ok && isIdent(s.Type, "uint8") && s.Name.IsExported() {
			constants[s.Name.Name] = 0
		}
	}
	current := ""
	for _, spec := range specs(parsed) {
		s, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if of, typed := s.Type.(*ast.Ident); typed {
			current = of.Name
		} else if len(s.Values) > 0 {
			current = ""
		}
		if _, enum := constants[current]; enum && s.Names[0].IsExported() {
			constants[current]++
		}
	}
	return constants
}

func specs(parsed []*ast.File) (all []ast.Spec) {
	for _, file := range parsed {
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				all = append(all, g.Specs...)
			}
		}
	}
	return all
}

func isIdent(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

// Every exported constructor has an example.
func TestConstructorsHaveExamples(t *testing.T) {
	for folder, parsed := range files(t) {
		functions := map[string]bool{}
		for _, file := range parsed {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					functions[f.Name.Name] = true
				}
			}
		}
		for name := range functions {
			if strings.HasPrefix(name, "New") && !functions["Example"+name] {
				t.Errorf("%s.%s has no function Example%s", folder, name, name)
			}
		}
	}
}

// A refusal of any part is found by its sentinel, through wrapping errors, and is not
// retried.
func TestRefusals(t *testing.T) {
	for sentinel, refusal := range map[error]error{
		adaptive.ErrRefused: &adaptive.RefusedError{Host: "orders.example"},
		breaker.ErrRefused:  &breaker.RefusedError{State: breaker.Open, RetryAfter: time.Second},
		bulkhead.ErrRefused: &bulkhead.RefusedError{Reason: bulkhead.ErrFull},
		deadline.ErrRefused: &deadline.RefusedError{},
		client.ErrRefused:   &client.RefusedError{Err: errors.New("full")},
	} {
		if err := errors.Join(errors.New("orders"), refusal); !errors.Is(err, sentinel) || retry.Classify(refusal).Retry || refusal.Error() == "" {
			t.Errorf("%T: %v, %+v", refusal, err, retry.Classify(refusal))
		}
	}
	inner := &client.RefusedError{Err: &breaker.RefusedError{}}
	if !errors.Is(inner, breaker.ErrRefused) || errors.Is(inner, bulkhead.ErrRefused) {
		t.Errorf("%v is not found by the part's sentinel alone", inner)
	}
}

// A nil part is a part left out: it lets every call through.
func TestNilParts(t *testing.T) {
	type do = func(context.Context, func(context.Context) (int, error)) (int, error)
	type call = func(context.Context) (int, error)
	for name, through := range map[string]do{
		"adaptive without a gate": func(ctx context.Context, f call) (int, error) { return adaptive.Do(ctx, nil, f) },
		"adaptive.Concurrency": func(ctx context.Context, f call) (int, error) {
			return adaptive.Do(ctx, (*adaptive.Concurrency)(nil), f)
		},
		"adaptive.Throttle": func(ctx context.Context, f call) (int, error) { return adaptive.Do(ctx, (*adaptive.Throttle)(nil), f) },
		"breaker.Breaker":   func(ctx context.Context, f call) (int, error) { return breaker.Do(ctx, nil, f) },
		"bulkhead.Bulkhead": func(ctx context.Context, f call) (int, error) { return bulkhead.Do(ctx, nil, f) },
		"bulkhead.Set":      func(ctx context.Context, f call) (int, error) { return bulkhead.DoNamed(ctx, nil, "orders", f) },
		"retry.Policy":      func(ctx context.Context, f call) (int, error) { return retry.Do(ctx, nil, f) },
		"client.Chain": func(ctx context.Context, f call) (int, error) {
			c, err := (*client.Chain)(nil).Begin(ctx, "")
			if err != nil {
				return 0, err
			}
			defer c.Success()
			return f(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				if n, err := through(t.Context(), func(context.Context) (int, error) { return 42, nil }); n != 42 || err != nil {
					t.Fatalf("%d, %v", n, err)
				}
			}
			failed := errors.New("no such order")
			if _, err := through(t.Context(), func(context.Context) (int, error) { return 0, retry.Permanent(failed) }); !errors.Is(err, failed) {
				t.Error(err)
			}
		})
	}
}

func TestNilTransportsSendRequests(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, transport := range map[string]http.RoundTripper{
		"client": (*client.Transport)(nil), "deadline": (*deadline.Transport)(nil), "retry": (*retry.Transport)(nil),
	} {
		c := http.Client{Transport: transport}
		resp, err := c.Get(server.URL)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Fatalf("%s: %v", name, err)
		}
		_ = resp.Body.Close()
		c.CloseIdleConnections()
	}
}

func TestNilCPUIsRefused(t *testing.T) {
	if _, err := adaptive.New(adaptive.Options{Algorithm: (*adaptive.CPU)(nil)}); err == nil || !strings.Contains(err.Error(), "Full: is 0") {
		t.Error(err)
	}
}

// The methods of nil parts that report something report that nothing happened.
func TestNilPartsReportNothing(t *testing.T) {
	var b *breaker.Breaker
	b.Reset()
	b.ForceOpen()
	if _, ok := b.BeginProbe(); !ok || b.State() != breaker.Disabled || b.RetryAfter() != 0 || b.Counts() != (breaker.Counts{}) {
		t.Errorf("breaker: %v, %v, %+v", b.State(), b.RetryAfter(), b.Counts())
	}
	var p *bulkhead.Bulkhead
	if _, ok := p.TryAcquire(); !ok || p.Usage() != (bulkhead.Usage{}) || len((*bulkhead.Set)(nil).Usage()) != 0 {
		t.Errorf("bulkhead: %+v", p.Usage())
	}
	(*bulkhead.Slot)(nil).Release()
	(*client.Call)(nil).Success()
	for _, clock := range []*breaker.CoarseClock{nil, {}} {
		clock.Stop()
		if time.Since(clock.Now()).Abs() > time.Minute {
			t.Error("a coarse clock that was not made does not return the system's time")
		}
	}
	var c *adaptive.Concurrency
	var th *adaptive.Throttle
	var cpu *adaptive.CPU
	if c.Usage() != (adaptive.Usage{}) || th.Probability() != 0 || cpu.Load() != 0 || cpu.Scale(100) != 100 || cpu.Next(0, adaptive.Window{}) != 0 {
		t.Errorf("adaptive: %+v, %v, %v", c.Usage(), th.Probability(), cpu.Load())
	}
}

// A call whose context has ended before it begins is not made, and is not counted.
func TestEndedContexts(t *testing.T) {
	b, err := breaker.New(breaker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := bulkhead.New(bulkhead.Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	g, err := adaptive.New(adaptive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := func(context.Context) (int, error) { t.Error("called"); return 0, nil }
	_, byBreaker := breaker.Do(ctx, b, f)
	_, byBulkhead := bulkhead.Do(ctx, p, f)
	_, byGate := adaptive.Do(ctx, g, f)
	for _, err := range []error{byBreaker, byBulkhead, byGate} {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if b.Counts().Calls != 0 || p.Usage().InUse != 0 || g.Usage().Admitted != 0 {
		t.Errorf("%+v, %+v, %+v", b.Counts(), p.Usage(), g.Usage())
	}
}
