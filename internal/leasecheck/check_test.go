package leasecheck_test

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/leasecheck"
)

const second = 1_000_000

func trace(t *testing.T, spec stint.Spec) *leasecheck.Trace {
	t.Helper()
	l, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return &leasecheck.Trace{Limit: l, Lease: 100 * time.Millisecond, Stretch: 100 * time.Millisecond}
}

// admit adds n admissions of cost 1 at a time, each with its charge.
func admit(t *leasecheck.Trace, when int64, n int) {
	for range n {
		t.Admissions = append(t.Admissions, leasecheck.Admission{Asked: when, When: when, Cost: 1, At: when})
		t.Charges = append(t.Charges, leasecheck.Charge{When: when, At: when, Cost: 1})
	}
}

// A decision that the store made in one window and that arrived in the next belongs to
// the first.
func TestAnAdmissionIsOfItsCharge(t *testing.T) {
	tr := trace(t, stint.Spec{Algorithm: stint.FixedWindow, Limit: 1, Window: time.Second})
	tr.Admissions = []leasecheck.Admission{{Asked: second - 9, At: second - 5, When: second + 1, Cost: 1}, {Asked: second + 2, At: second + 2, When: second + 2, Cost: 1}}
	if err := tr.Bound(); err != nil {
		t.Error(err)
	}
	tr.Admissions[0].Asked = second // from a lease that should have ended
	if tr.Bound() == nil {
		t.Error("a token of the last window passes")
	}
}

// Each case is the maximum that the bound admits, and then one more.
func TestBoundIsSharp(t *testing.T) {
	ten := stint.Spec{Limit: 10, Window: time.Second}
	as := func(a stint.Algorithm) stint.Spec { s := ten; s.Algorithm = a; return s }
	for _, test := range []struct {
		name string
		spec stint.Spec
		when []int64 // times of the maximum
		then int64   // time of one unit more
	}{
		{"a burst and what refills in a lease", ten, many(11, 0), 0},
		{"a burst, and what refills later", ten, append(many(11, 0), many(5, second/2)...), second/2 + 1},
		{"a window", as(stint.FixedWindow), many(10, 5*second), 6*second - 1},
		{"a log", as(stint.SlidingWindowLog), many(10, 0), 900_000 - 1},
	} {
		tr := trace(t, test.spec)
		for _, when := range test.when {
			admit(tr, when, 1)
		}
		if err := tr.Bound(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		admit(tr, test.then, 1)
		if tr.Bound() == nil {
			t.Errorf("%s: one more passes", test.name)
		}
	}
}

func many(n int, when int64) (all []int64) {
	for range n {
		all = append(all, when)
	}
	return all
}

func TestAdmissionsOutsideTheWindowDoNotCount(t *testing.T) {
	tr := trace(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 10, Window: time.Second})
	admit(tr, 0, 10)
	admit(tr, 900_000, 10)
	if err := tr.Bound(); err != nil {
		t.Error(err)
	}
}

func TestTokensAreCounted(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(t *leasecheck.Trace)
	}{
		{"spent twice", func(t *leasecheck.Trace) { t.Admissions = append(t.Admissions, t.Admissions[0]) }},
		{"never charged", func(t *leasecheck.Trace) { t.Admissions[0].At++ }},
		{"spent too late", func(t *leasecheck.Trace) { t.Admissions[0].When += 100_001 }},
		{"asked too late", func(t *leasecheck.Trace) {
			t.Admissions[0] = leasecheck.Admission{Asked: 100_006, When: 100_006, Cost: 1, At: 5, Batch: true}
		}},
		{"spent and returned", func(t *leasecheck.Trace) { t.Returns = []leasecheck.Return{{At: 5, Cost: 1}} }},
	} {
		tr := trace(t, stint.Spec{Limit: 10, Window: time.Second})
		admit(tr, 5, 3)
		if err := tr.Tokens(); err != nil || tr.Stranded() != 0 {
			t.Fatal(err)
		}
		tr.Admissions[2].When += 100_001
		if tr.Admissions[2].Batch = true; tr.Tokens() != nil { // this admission waited for other answers
			t.Error(tr.Tokens())
		}
		if test.spoil(tr); tr.Tokens() == nil {
			t.Errorf("%s: passes", test.name)
		}
	}
}
