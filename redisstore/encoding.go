package redisstore

import (
	"cmp"
	_ "embed"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// The scripts. bucket.lua decides what nearly every check is, one.lua such a
// check that travels by itself, take.lua everything. They are translations of
// the steps of package stint, and a fuzz test on a real server holds them to
// those.
var (
	//go:embed one.lua
	oneScript string
	//go:embed bucket.lua
	bucketScript string
	//go:embed take.lua
	takeScript string

	// bucketStep is what one.lua and bucket.lua have in common.
	//go:embed step.lua
	bucketStep string
)

// withStep is a script with the step of a bucket where it names that.
func withStep(text string) *script {
	return newScript(strings.Replace(text, "-- step.lua\n", bucketStep, 1))
}

// encoding is how claims become script calls, and replies decisions. It is
// safe for use by many goroutines.
type encoding struct {
	prefix string
	clock  func() int64 // nil: the server's
	keep   int64        // ms that a key lives longer than its state
	limits limitCache
	// callers is what the states of callers' limits take.
	callers *account

	one, bucket, take *script
}

func newEncoding(o *Options) (*encoding, error) {
	prefix, err := prefixOf(o.Prefix)
	if err != nil {
		return nil, err
	}
	keep := milliseconds(o.KeepFor)
	return &encoding{
		prefix:  prefix,
		clock:   o.Clock,
		keep:    keep,
		limits:  limitCache{keep: keep},
		callers: newAccount(cmp.Or(o.CallerBytes, DefaultCallerBytes), sinceStart()),
		one:     withStep(oneScript),
		bucket:  withStep(bucketScript),
		take:    newScript(takeScript),
	}, nil
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// scripts are all that a server should know before the first call.
func (e *encoding) scripts() []*script { return []*script{e.one, e.bucket, e.take} }

// oneState reports whether two claims are on the state of one key.
func (e *encoding) oneState(a, b *stint.Claim) bool {
	return a.Key == b.Key && (a.Limit == b.Limit || e.limits.of(a.Limit).hash == e.limits.of(b.Limit).hash)
}
