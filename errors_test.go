package stint_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func TestErrorsAreTheirCodes(t *testing.T) {
	down := &stint.Error{Code: stint.CodeUnavailable, Kind: stint.KindTryAgain, Problem: "down", Err: context.DeadlineExceeded}
	_, notALimit := stint.ParseLimit("many")
	for _, c := range []struct {
		err  error
		code stint.Code
	}{
		{down, stint.CodeUnavailable},
		{fmt.Errorf("login: %w", down), stint.CodeUnavailable},
		{&stint.GroupsError{Errs: []error{nil, down}}, stint.CodeUnavailable},
		{&stint.Error{Problem: "bug"}, stint.CodeInternal},
		{notALimit, stint.CodeInvalid},
		{stint.CodeExhausted, stint.CodeExhausted},
	} {
		if got := stint.CodeOf(c.err); got != c.code {
			t.Errorf("%v: code %v; want %v", c.err, got, c.code)
		}
		for code := stint.CodeInternal; code <= stint.CodeExhausted; code++ {
			if errors.Is(c.err, code) != (code == c.code) {
				t.Errorf("%v is %v: %v", c.err, code, code != c.code)
			}
		}
	}
	if !errors.Is(down, context.DeadlineExceeded) {
		t.Error("the cause is hidden")
	}
	for _, err := range []error{nil, errors.New("other"), context.Canceled} {
		if stint.CodeOf(err) != stint.CodeInternal || errors.Is(err, stint.CodeInternal) {
			t.Errorf("%v: %v", err, stint.CodeOf(err))
		}
	}
}

// enums has a value of every enum of the package, by the name of its type.
var enums = map[string]func(i int) fmt.Stringer{
	"Algorithm":   func(i int) fmt.Stringer { return stint.Algorithm(i) },
	"Code":        func(i int) fmt.Stringer { return stint.Code(i) },
	"EventKind":   func(i int) fmt.Stringer { return stint.EventKind(i) },
	"Consistency": func(i int) fmt.Stringer { return stint.Consistency(i) },
	"PenaltyKind": func(i int) fmt.Stringer { return stint.PenaltyKind(i) },
	"OnFailure":   func(i int) fmt.Stringer { return stint.OnFailure(i) },
}

func TestEveryValueOfEveryEnumHasAName(t *testing.T) {
	counts := constantsByType(t)
	for name, n := range counts {
		of, ok := enums[name]
		if !ok {
			t.Errorf("%s is not under test: give it a String method, and add it to enums", name)
			continue
		}
		seen := map[string]bool{}
		for i := range n {
			text := of(i).String()
			if text == "" || strings.Contains(text, "(") || seen[text] || fmt.Sprint(of(i)) != text {
				t.Errorf("%s %d is %q", name, i, text)
			}
			seen[text] = true
		}
		if got := of(n).String(); !strings.HasSuffix(got, fmt.Sprintf("(%d)", n)) {
			t.Errorf("%s has no value %d, and it is %q", name, n, got)
		}
	}
	if len(counts) != len(enums) {
		t.Errorf("the package has the enums %v; want those of %d", counts, len(enums))
	}
}

// constantsByType counts the constants of each exported enum: a block whose first
// constant is iota.
func constantsByType(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, f := range goFiles(t) {
		if f.test() || path.Dir(f.path) != "." {
			continue
		}
		for _, decl := range f.tree.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			first, _ := d.Specs[0].(*ast.ValueSpec)
			if kind, ok := first.Type.(*ast.Ident); ok && kind.IsExported() && len(first.Values) == 1 && fmt.Sprint(first.Values[0]) == "iota" {
				counts[kind.Name] += len(d.Specs)
			}
		}
	}
	return counts
}
