package redisstore

import (
	_ "embed"
	"time"
)

// The scripts. bucket.lua decides what nearly every check is, take.lua
// everything; both are translations of the steps of package stint, and a fuzz
// test on a real server holds them to those.
var (
	//go:embed bucket.lua
	bucketScript string
	//go:embed take.lua
	takeScript string
)

// encoding is how claims become script calls, and replies decisions. It is
// safe for use by many goroutines.
type encoding struct {
	prefix string
	clock  func() int64 // nil: the server's
	keep   int64        // ms that a key lives longer than its state
	limits limitCache

	bucket, take *script
}

func newEncoding(o *Options) (*encoding, error) {
	prefix, err := prefixOf(o.Prefix)
	if err != nil {
		return nil, err
	}
	return &encoding{
		prefix: prefix,
		clock:  o.Clock,
		keep:   int64((o.KeepFor + time.Millisecond - 1) / time.Millisecond),
		bucket: newScript(bucketScript),
		take:   newScript(takeScript),
	}, nil
}

// scripts are all that a server should know before the first call.
func (e *encoding) scripts() []*script { return []*script{e.bucket, e.take} }
