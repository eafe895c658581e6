package grpcapi

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/rule"
)

// Bounds of a call.
const (
	maxLimits       = 32     // limits of one key
	maxBatchLimits  = 1024   // limits of a batch
	maxBatch        = 10_000 // claims or checks of a batch
	maxAttributes   = 256    // attributes of a check
	maxMessageSlots = 4096   // entries of columns that a pooled round keeps
)

// Options configure a [Service]. Store and Rules are required.
type Options struct {
	Store stint.Store
	// Rules returns the rule set in force.
	Rules func() RuleSet
	// Token is the bearer token that every call must send; nil requires none.
	Token *secret.Text
	// Private says that all callers are trusted although there is no Token: they have
	// client certificates, or are on this machine. Without Token and Private, callers'
	// limits cannot name a rule or a namespace, and callers cannot forget keys.
	Private bool
	// WriteTimeout bounds how long a client of a stream may take to read an
	// answer. 0 means 5 s.
	WriteTimeout time.Duration

	// Observe, if not nil, receives how many checks and takes were decided together,
	// and how long that took.
	Observe func(took time.Duration, decisions int)
	// Taken, if not nil, receives every decision under limits that the caller sent.
	Taken func(face *stint.Decision, onFailure stint.OnFailure)
	// Failed, if not nil, receives the error of each failed decision, except the
	// caller's own mistakes and calls that the caller has given up.
	Failed func(err error)
}

// RuleSet is a rule set in force.
type RuleSet interface {
	// RuleSet returns the rules.
	RuleSet() *rule.Set
	// Count receives every outcome, and the plan that it settled.
	Count(p rule.Plan, o *rule.Outcome)
}

// Service implements the service of stint.v1. Make one with [New].
type Service struct {
	stintv1.UnimplementedLimiterServiceServer

	options Options
	limits  limitCache // limits of other servers' rules
	rounds  sync.Pool  // of *round
	batches sync.Pool  // of *batch
	drained chan struct{}
	drain   sync.Once

	callersLimits limitCache // limits of callers: apart, so that they evict no rule's limit
}

// New returns a service.
func New(o Options) *Service {
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 5 * time.Second
	}
	if o.Observe == nil {
		o.Observe = func(time.Duration, int) {}
	}
	if o.Taken == nil {
		o.Taken = func(*stint.Decision, stint.OnFailure) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return &Service{options: o, limits: newLimitCache(), callersLimits: newLimitCache(), drained: make(chan struct{})}
}

// Register registers the service with a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { stintv1.RegisterLimiterServiceServer(r, s) }

// Drain ends all streams, each after the answers to the requests that have arrived.
func (s *Service) Drain() { s.drain.Do(func() { close(s.drained) }) }

// failed returns the status of an error, and logs errors that are not the caller's.
func (s *Service) failed(ctx context.Context, err error) error {
	s.log(ctx, err)
	return statusOf(err).Err()
}

func (s *Service) log(ctx context.Context, err error) {
	if err != nil && !callersMistake(err) && !over(ctx) {
		s.options.Failed(err)
	}
}

// over reports whether the caller's time is up. A store may time out by a timer of its
// own, before the context does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// news selects one error of a call with many items for the log: the first that is not
// a caller's mistake. When the store fails, all items fail alike.
type news struct{ err error }

func (n *news) hear(err error) {
	if n.err == nil && !callersMistake(err) {
		n.err = err
	}
}
