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
	maxBatch        = 10_000 // claims of a batch, or checks
	maxAttributes   = 256    // attributes of a check
	maxMessageSlots = 4096   // entries of columns that a pooled round keeps
)

// Options are what a [Service] answers from. Store and Rules are needed.
type Options struct {
	Store stint.Store
	// Rules returns the rule set in force.
	Rules func() RuleSet
	// Token is the bearer token that every call must bring; nil asks for none.
	Token *secret.Text
	// Private says that only those can call whom the operator let in, although
	// there is no Token: by certificates, or because they are on this machine.
	// Where neither holds, limits cannot name a rule or a namespace, and keys
	// cannot be forgotten.
	Private bool
	// WriteTimeout bounds how long a client of a stream may take to read an
	// answer. 0 means 5 s.
	WriteTimeout time.Duration

	// Observe is told how many checks and takes were decided together, and how
	// long that took. Nil is told nothing.
	Observe func(took time.Duration, decisions int)
	// Taken is told of every decision on limits that the caller brought. Nil
	// is told nothing.
	Taken func(face *stint.Decision, onFailure stint.OnFailure)
	// Failed is told why there was no decision, unless that is the caller's
	// mistake or the caller is gone. Nil is told nothing.
	Failed func(err error)
}

// RuleSet is a rule set in force.
type RuleSet interface {
	// RuleSet is what decides.
	RuleSet() *rule.Set
	// Count is told of every outcome, and of the plan that it settled.
	Count(p rule.Plan, o *rule.Outcome)
}

// Service implements the service of stint.v1. Make one with [New].
type Service struct {
	stintv1.UnimplementedLimiterServiceServer

	options Options
	limits  limitCache // of the rules of other servers
	rounds  sync.Pool  // of *round
	batches sync.Pool  // of *batch
	drained chan struct{}
	drain   sync.Once

	callersLimits limitCache // apart: ever new ones drop no others
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
	s := &Service{options: o, drained: make(chan struct{})}
	s.limits.init()
	s.callersLimits.init()
	return s
}

// Register lets a server answer for the service.
func (s *Service) Register(r grpc.ServiceRegistrar) { stintv1.RegisterLimiterServiceServer(r, s) }

// Drain ends the streams, each after the answers to what has arrived on it.
func (s *Service) Drain() { s.drain.Do(func() { close(s.drained) }) }

// failed is the status for an error, which is logged unless it is the
// caller's.
func (s *Service) failed(ctx context.Context, err error) error {
	s.log(ctx, err)
	return statusOf(err).Err()
}

func (s *Service) log(ctx context.Context, err error) {
	if err != nil && !callersMistake(err) && !over(ctx) {
		s.options.Failed(err)
	}
}

// over reports whether the caller's time is. A store may see that by a timer of
// its own, before the context does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// news is what the log hears of a call that carries many: the first error that
// is for it. When the store fails, all of them say the same.
type news struct{ err error }

func (n *news) hear(err error) {
	if n.err == nil && !callersMistake(err) {
		n.err = err
	}
}
