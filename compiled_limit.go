package stint

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"
)

// compiledLimit is a compiled [Spec]: the numbers that the steps compute with.
// All times are microseconds. Only ref changes after compilation.
type compiledLimit struct {
	// Nearly every check reads the fields down to ref, which fill two cache
	// lines.
	alg        Algorithm
	rounded    bool
	fitsWord   bool // full·q fits into 61 bits, so one-word arithmetic is exact
	fromCaller bool // Spec.FromCaller
	fracBits   uint
	max        int64 // Decision.Limit, in units

	// Buckets have a capacity of full micro-units and refill by p/q micro-units
	// a microsecond. fill is the time from empty to full. The fraction of a
	// state takes fracBits bits.
	full, p, q, fill int64
	byP, byQ         divisor

	salt [2]uint64     // hash of the scope and shape, mixed into the identity of each key
	ref  atomic.Uint64 // cached reference of one memory store; only registry uses it

	// Windows, counters and logs have a window; width = window/buckets.
	window, width int64
	buckets       int
	maxWait       int64    // greatest delay of a leaky bucket; maxMicros: any
	calendar      calendar // calendar of a quota

	shape string // see Limit.Shape
	spec  Spec   // with defaults set
}

// isBucket reports whether the state is a bucket's tokens.
func (n *compiledLimit) isBucket() bool { return n.alg <= GCRA }

// wide reports whether the state is a slice beside the table.
func (n *compiledLimit) wide() bool {
	return n.alg == SlidingWindowLog || n.alg == SlidingWindowCounter && n.buckets > 1
}

// Compile validates the spec and returns the handle to its compiled numbers. The
// error is a [*LimitError] that names the field and says how to mend it.
func (s Spec) Compile() (Limit, error) {
	n, err := s.compile()
	return Limit{n}, err
}

// compile does the work of Compile, which is small enough to be inlined. It
// returns nil with an error.
func (s Spec) compile() (*compiledLimit, error) {
	if int(s.Algorithm) >= len(algorithmNames) {
		return nil, &LimitError{Field: "algorithm", Problem: s.Algorithm.String() + " is not known", Mend: "use a constant of this package"}
	}
	n := &compiledLimit{spec: s, alg: s.Algorithm, fromCaller: s.FromCaller}
	for _, part := range []func() error{n.spec.checkFields, n.compileAlgorithm, n.nameScope} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	n.shape = fmt.Sprintf("%s|%d|%d|%s", n.alg, n.window, n.buckets, n.calendar.said)
	n.salt = n.hashScope()
	return n, nil
}

// compileAlgorithm compiles the parameters of the algorithm.
func (n *compiledLimit) compileAlgorithm() error {
	switch n.alg {
	case TokenBucket, GCRA:
		return n.compileBucket()
	case LeakyBucket:
		return n.compileLeaky()
	case Quota:
		return n.compileQuota()
	default:
		return n.compileWindow()
	}
}

func (n *compiledLimit) compileWindow() error {
	s := &n.spec
	if err := s.checkLimitWindow(); err != nil {
		return err
	}
	if n.alg == SlidingWindowLog && s.Limit > MaxLogLimit {
		return &LimitError{Field: "limit", Problem: fmt.Sprintf("%d is too many timestamps for a sliding_window_log", s.Limit),
			Mend: fmt.Sprintf("use at most %d, or sliding_window_counter with buckets: 60, which needs 61 counts whatever the limit", MaxLogLimit)}
	}
	n.max, n.window, n.buckets = s.Limit, s.Window.Microseconds(), 1
	if n.alg == SlidingWindowCounter {
		if s.Buckets == 0 {
			s.Buckets = 1
		}
		n.buckets = s.Buckets
		if n.buckets < 1 || n.buckets > MaxBuckets {
			return outOfRange("buckets", n.buckets, 1, MaxBuckets)
		}
		if n.window%int64(n.buckets) != 0 {
			return &LimitError{Field: "buckets", Problem: fmt.Sprintf("%d does not divide the window of %s into whole microseconds", n.buckets, windowText(s.Window)),
				Mend: "use a number that divides the window, such as 1, 2, 5 or 10"}
		}
	}
	n.width = n.window / int64(n.buckets)
	return nil
}

func (n *compiledLimit) compileBucket() error {
	s := &n.spec
	rate, err := s.rate()
	if err != nil {
		return err
	}
	if s.Capacity == 0 {
		s.Capacity = defaultCapacity(s.Limit, rate)
	}
	if s.Capacity < 1 || s.Capacity > MaxLimit {
		return outOfRange("capacity", s.Capacity, 1, MaxLimit)
	}
	return n.setBucket("capacity", s.Capacity, rate)
}

func (n *compiledLimit) compileLeaky() error {
	s := &n.spec
	if err := s.checkLimitWindow(); err != nil {
		return err
	}
	rate, err := s.rate()
	if err != nil {
		return err
	}
	if s.Queue < 0 || s.Queue >= MaxLimit {
		return outOfRange("queue", s.Queue, 0, MaxLimit-1)
	}
	n.maxWait = maxMicros
	if s.MaxWait != 0 {
		if err := checkTime("max_wait", s.MaxWait, time.Microsecond, "use a time from 1µs to 9600h (400 days); queue: 0 lets nothing wait"); err != nil {
			return err
		}
		n.maxWait = s.MaxWait.Microseconds()
	}
	return n.setBucket("queue", s.Queue+1, rate)
}

// setBucket fits the rate to the capacity and sets both. field is the name of
// the field that gave the capacity, for errors.
func (n *compiledLimit) setBucket(field string, capacity int64, rate *big.Rat) error {
	n.max, n.full = capacity, capacity*microUnits
	fitted := fitRate(rate, func(p, q *big.Int) bool { return rateFits(n.full, p, q) })
	if fitted.Sign() == 0 {
		return &LimitError{Field: field, Problem: fmt.Sprintf("%d is too great for the rate of %s a second", capacity, rate.RatString()), Mend: "lower it, or raise the rate"}
	}
	n.rounded = fitted.Cmp(rate) != 0
	n.p, n.q = fitted.Num().Int64(), fitted.Denom().Int64()
	n.byP, n.byQ = divisorOf(n.p), divisorOf(n.q)
	n.fitsWord = bits.Len64(uint64(n.full))+bits.Len64(uint64(n.q)) <= 61
	fill := new(big.Int).Mul(big.NewInt(n.full), fitted.Denom())
	fill.Add(fill, big.NewInt(n.p-1)).Quo(fill, big.NewInt(n.p))
	if fill.BitLen() > 52 {
		return &LimitError{Field: field, Problem: fmt.Sprintf("%d takes over 142 years to fill at %s a second", capacity, rate.RatString()), Mend: "lower it, or raise the rate"}
	}
	n.fill = fill.Int64()
	n.fracBits = uint(bits.Len64(uint64(n.q - 1)))
	n.window = n.spec.Window.Microseconds()
	return nil
}

func (n *compiledLimit) compileQuota() (err error) {
	s := &n.spec
	if s.Limit < 1 || s.Limit > MaxLimit {
		return outOfRange("limit", s.Limit, 1, MaxLimit)
	}
	n.max = s.Limit
	n.calendar, err = s.parseCalendar()
	return err
}

// checkFields refuses fields that the algorithm does not take.
func (s *Spec) checkFields() error {
	bucket := s.Algorithm == TokenBucket || s.Algorithm == GCRA
	for _, f := range []struct {
		name, also  string
		given, does bool
	}{
		{"capacity", ", or burst, its other name", s.Capacity != 0, bucket},
		{"refill_rate", "", s.RefillRate != "", s.Algorithm == TokenBucket},
		{"buckets", "", s.Buckets != 0, s.Algorithm == SlidingWindowCounter},
		{"queue", "", s.Queue != 0, s.Algorithm == LeakyBucket},
		{"max_wait", "", s.MaxWait != 0, s.Algorithm == LeakyBucket},
		{"window", "", s.Window != 0, s.Algorithm != Quota},
		{"period", "", s.Period != "", s.Algorithm == Quota},
		{"anchor", "", s.Anchor != "", s.Algorithm == Quota},
		{"utc_offset", "", s.UTCOffset != "", s.Algorithm == Quota},
	} {
		if f.given && !f.does {
			return &LimitError{Field: f.name, Problem: "is not a parameter of " + s.Algorithm.String(), Mend: "remove it" + f.also + "; " + s.Algorithm.String() + " takes " + parameters[s.Algorithm]}
		}
	}
	return nil
}

var parameters = [...]string{
	TokenBucket:          "capacity (or burst) and refill_rate, or limit and window",
	GCRA:                 "limit, window and burst",
	FixedWindow:          "limit and window",
	SlidingWindowCounter: "limit, window and buckets",
	SlidingWindowLog:     "limit and window",
	LeakyBucket:          "limit, window, queue and max_wait",
	Quota:                "limit, period, anchor and utc_offset",
}

func (s *Spec) checkLimitWindow() error {
	if s.Limit < 1 || s.Limit > MaxLimit {
		return outOfRange("limit", s.Limit, 1, MaxLimit)
	}
	return checkWindow("window", s.Window)
}

func checkWindow(field string, w time.Duration) error {
	if w == 0 {
		return &LimitError{Field: field, Problem: "is missing", Mend: "give a time such as 1m"}
	}
	return checkTime(field, w, MinWindow, "use a time from 1ms to 9600h (400 days)")
}

// checkTime checks that a time is from least to MaxWindow and whole microseconds.
func checkTime(field string, t, least time.Duration, mend string) error {
	switch {
	case t < least || t > MaxWindow:
		return &LimitError{Field: field, Problem: fmt.Sprintf("%v is out of range", t), Mend: mend}
	case t%time.Microsecond != 0:
		return &LimitError{Field: field, Problem: fmt.Sprintf("%v is not whole microseconds", t), Mend: "round it"}
	}
	return nil
}

// nameScope sets the default name and checks the scope.
func (n *compiledLimit) nameScope() error {
	s := &n.spec
	if s.Name == "" {
		s.Name = s.defaultName()
	}
	for _, part := range []struct{ field, name string }{{"namespace", s.Namespace}, {"rule", s.Rule}, {"name", s.Name}, {"store", s.Store}} {
		if err := validateName(part.field, part.name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) defaultName() string {
	switch {
	case s.Algorithm == Quota:
		return s.Algorithm.String() + ":" + s.Period
	case s.Window == 0:
		return s.Algorithm.String()
	}
	return s.Algorithm.String() + ":" + windowText(s.Window)
}

// windowText formats a duration without trailing zero parts: 1m, not 1m0s.
func windowText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (n *compiledLimit) hashScope() (salt [2]uint64) {
	h := sha256.New()
	for _, part := range []string{n.spec.Namespace, n.spec.Rule, n.spec.Name, n.shape} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	if n.spec.FromCaller {
		h.Write([]byte("caller"))
	}
	sum := h.Sum(nil)
	return [2]uint64{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
}
