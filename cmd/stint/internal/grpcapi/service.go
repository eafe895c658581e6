// Package grpcapi serves stint.v1, Stint's own protocol over gRPC. It has checks,
// which rules decide; takes, under limits that the caller sends; batches of either;
// and a stream of both.
//
// [Service] answers from any [stint.Store] and any rule set. Each message becomes one
// call of the store, so a batch costs one round trip to the store.
//
// The package bounds the claims and limits of a call, the unanswered requests of a
// stream, and the time in which a client must read an answer. A denial is an answer.
// An error is a status that says what is wrong, where, and how to fix it. Details of
// internal failures go to the log and not to the client.
package grpcapi

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/internal/secret"
)

// Bounds of a call.
const (
	maxBatchLimits  = 1024   // limits of a batch
	maxBatch        = 10_000 // claims or checks of a batch
	maxAttributes   = 256    // attributes of a check
	maxMessageSlots = 4096   // entries of columns that a pooled batch keeps
)

// Options configures a [Service].
type Options struct {
	// Decider makes the decisions; required.
	Decider *decide.Decider
	// Token is the bearer token that every call must send; nil requires none.
	Token *secret.Text
	// Private says that all callers are trusted although there is no Token: they have
	// client certificates, or are on this machine. Without Token and Private, callers'
	// limits cannot name a rule or a namespace, and callers cannot forget keys.
	Private bool
	// WriteTimeout bounds how long a client of a stream may take to read an
	// answer. 0 means 5 s.
	WriteTimeout time.Duration

	// Traced records the messages of streams. Nil records none.
	Traced *tracing.Listener

	// Failed, if not nil, receives the error of each failed decision, except the
	// caller's own mistakes and calls that the caller has given up.
	Failed func(err error)
	// Refused, if not nil, is called for each call without the token.
	Refused func()
}

// Service implements the service of stint.v1. Make one with [New].
type Service struct {
	stintv1.UnimplementedLimiterServiceServer

	options Options
	limits  limitCache // limits of other servers' rules
	rounds  sync.Pool  // a pool of *round
	batches sync.Pool  // a pool of *batch
	drained chan struct{}
	drain   sync.Once

	callersLimits limitCache // limits of callers: apart, so that they evict no rule's limit
}

// New returns a service.
func New(o Options) *Service {
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 5*time.Second)
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	s := &Service{options: o, limits: newLimitCache(), callersLimits: newLimitCache(), drained: make(chan struct{})}
	s.rounds.New = func() any { return &round{service: s, Batch: o.Decider.NewBatch()} }
	s.batches.New = func() any { return new(batch) }
	return s
}

// Register registers the service with a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { stintv1.RegisterLimiterServiceServer(r, s) }

// Drain ends all streams, each after the answers to the requests that have arrived.
func (s *Service) Drain() { s.drain.Do(func() { close(s.drained) }) }

// rejected is failed for a request that is the caller's mistake.
func (s *Service) rejected(ctx context.Context, err error) error {
	s.options.Decider.Reject(true)
	return s.failed(ctx, err)
}

// failed returns the status of an error, and logs errors that are not the caller's.
func (s *Service) failed(ctx context.Context, err error) error {
	if isFailure(err) {
		s.log(ctx, err)
	}
	return statusOf(err).Err()
}

// log logs a failure, unless it is nil or the caller has given up.
func (s *Service) log(ctx context.Context, failure error) {
	if failure != nil && !over(ctx) {
		s.options.Failed(failure)
	}
}

// over reports whether the caller's time is up. A store may time out by a timer of its
// own, before the context does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}
