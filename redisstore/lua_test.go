package redisstore

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// luaFunctions returns the source of functions of take.lua.
func luaFunctions(t *testing.T, names ...string) string {
	t.Helper()
	source := "local floor, min, max, UNIT, MOST, WINDOW = math.floor, math.min, math.max, 1e6, 9007199254740991, 3\n"
	for _, name := range names {
		before, after, found := strings.Cut(takeScript, "local function "+name+"(")
		indent := before[strings.LastIndexByte(before, '\n'):]
		body, _, ends := strings.Cut(after, indent+"end\n")
		if !found || !ends {
			t.Fatalf("take.lua has no function %s", name)
		}
		source += "local function " + name + "(" + body + "\nend\n"
	}
	return source
}

// evalNumbers calls a script with numbers and returns its numbers.
func (s *scripts) evalNumbers(script string, numbers []int64) []string {
	s.Helper()
	var args []string
	for _, n := range numbers {
		args = append(args, fmt.Sprint(n))
	}
	return s.eval(script, nil, args, nil)
}

func TestProductsPastADoubleAreExact(t *testing.T) {
	s := dialBoth(t)
	script := luaFunctions(t, "shareUp", "mulDiv", "mulDivUp") + `
		local out = {}
		local function number(text) return tonumber(text) + 0.0 end -- a product of integers could wrap
		for i = 1, #ARGV, 7 do
			out[#out + 1] = string.format('%.0f', shareUp(number(ARGV[i]), number(ARGV[i + 1]), number(ARGV[i + 2])))
			local a, b, plus, c = number(ARGV[i + 3]), number(ARGV[i + 4]), number(ARGV[i + 5]), number(ARGV[i + 6])
			local quotient, rest = mulDiv(a, b, plus, c)
			out[#out + 1] = string.format('%.0f', quotient)
			out[#out + 1] = string.format('%.0f', rest)
			out[#out + 1] = string.format('%.0f', mulDivUp(a, b, plus - c + 1, c))
		end
		return out`
	r := newRand(t)
	for range 100 {
		var numbers []int64
		var want []string
		for range 100 {
			n, w := drawProducts(r)
			numbers, want = append(numbers, n...), append(want, w...)
		}
		for i, got := range s.evalNumbers(script, numbers) {
			if got != want[i] {
				t.Fatalf("%v: result %d is %s, want %s", numbers[i/4*7:i/4*7+7], i%4, got, want[i])
			}
		}
	}
}

// drawProducts draws a, b, c for shareUp, and a, b, plus, c for the other functions, with
// their results.
func drawProducts(r *rand.Rand) (numbers []int64, results []string) {
	c := 1 + r.Int64N(1<<r.IntN(46))
	b := 1 + r.Int64N(c)
	a := r.Int64N(1 << r.IntN(33))
	if inverse := new(big.Int).ModInverse(big.NewInt(b), big.NewInt(c)); inverse != nil && inverse.BitLen() < 32 && r.IntN(2) == 0 {
		a = inverse.Int64() // the rest is 1
	}
	share := ceilDiv(product(a, b), big.NewInt(c))
	q := 1 + r.Int64N(1<<r.IntN(52))
	p := 1 + r.Int64N(max(1, 1<<51/q))
	e := r.Int64N(min(1<<52, 1<<52/((p+q-1)/q)))
	plus := r.Int64N(q)
	sum := product(e, p)
	sum.Add(sum, big.NewInt(plus))
	quotient, rest := new(big.Int).QuoRem(sum, big.NewInt(q), new(big.Int))
	up := ceilDiv(new(big.Int).Sub(sum, big.NewInt(q-1)), big.NewInt(q))
	return []int64{a, b, c, e, p, plus, q}, []string{share.String(), quotient.String(), rest.String(), up.String()}
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

func ceilDiv(a, b *big.Int) *big.Int {
	quotient, rest := new(big.Int).DivMod(a, b, new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient
}

// TestMonthsAreThoseOfTheCalendar compares months with those of package time, from 500
// years before the epoch to 500 years after it.
func TestMonthsAreThoseOfTheCalendar(t *testing.T) {
	s := dialBoth(t)
	script := luaFunctions(t, "dayNumber", "monthOf", "monthStart", "period") + `
		local out, number = {}, tonumber
		for i = 1, #ARGV, 4 do
			local l = {kind = 4, offset = number(ARGV[i + 1]), day = number(ARGV[i + 2]), timeOfDay = number(ARGV[i + 3])}
			local from, to = period(l, number(ARGV[i]))
			out[#out + 1], out[#out + 2] = string.format('%.0f', from), string.format('%.0f', to)
		end
		return out`
	r := newRand(t)
	for range 20 {
		var numbers []int64
		var want []string
		for range 200 {
			at, offset, day, clock := r.Int64N(1e16)-5e15, (r.Int64N(37)-18)*3600e6, 1+r.Int64N(31), r.Int64N(86400e6)
			numbers = append(numbers, at, offset, day, clock)
			from, to := monthAround(at, offset, day, clock)
			want = append(want, fmt.Sprint(from), fmt.Sprint(to))
		}
		for i, got := range s.evalNumbers(script, numbers) {
			if got != want[i] {
				t.Fatalf("period %v: %s, want %s", numbers[i/2*4:i/2*4+4], got, want[i])
			}
		}
	}
}

// monthAround returns the monthly period that contains a time. It tries the months around
// it.
func monthAround(at, offset, day, clock int64) (from, to int64) {
	zone := time.FixedZone("", int(offset/1e6))
	local := time.UnixMicro(at).In(zone)
	start := func(months int) int64 {
		first := time.Date(local.Year(), local.Month()+time.Month(months), 1, 0, 0, 0, 0, zone)
		last := first.AddDate(0, 1, -1).Day()
		return first.AddDate(0, 0, min(int(day), last)-1).UnixMicro() + clock
	}
	for m := -2; ; m++ {
		if from, to = start(m), start(m+1); from <= at && at < to {
			return from, to
		}
	}
}

func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
