package envoyrls

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/filewatch"
)

// Options are what a [Service] works with.
type Options struct {
	// Dir is the folder of configuration files.
	Dir string
	// Merge lets several files describe one domain.
	Merge bool
	// Store decides.
	Store stint.Store
	// Headers are the names of the headers that Envoy adds to its responses:
	// of the limit that is nearest to its end, what remains of it, and the
	// seconds until it is whole. Nil adds none.
	Headers *HeaderNames
	// CountAll counts as Envoy's own service does: each limit by itself, and
	// also what is denied.
	CountAll bool
	// StopWhenOver, with CountAll, lets a request that would be over one of its
	// limits count for none but those.
	StopWhenOver bool
	// Shadow answers that a request is OK, whatever its descriptors are.
	Shadow bool
	// Quota takes every limit for one in quota mode: a request is over limit
	// when all its limits are.
	Quota bool
	// Metadata tells in the metadata of every answer what was asked.
	Metadata bool
	// Counters returns the counters of a limit by its name in the
	// configuration; the empty name is of requests that no limit applied to.
	// Nil counts nothing.
	Counters func(limit string) Counters
	// Loaded is told of every attempt to read a configuration that has
	// changed: how many files have a mistake. Nil is told nothing.
	Loaded func(mistaken int)
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// HeaderNames are the names of three headers.
type HeaderNames struct{ Limit, Remaining, Reset string }

// Service answers Envoy. Make it by [New].
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	options   Options
	folder    folder // of the goroutine of New, then of Run
	follower  *filewatch.Follower
	overrides overrides
	unmatched Counter   // requests that no limit applied to
	plans     sync.Pool // of *plan
	domains   atomic.Pointer[map[string]*file]
}

// New reads the configuration. An error means that there is none to serve: the
// folder cannot be read, or none of its files is without mistakes.
func New(o Options) (*Service, error) {
	o = o.setDefaults()
	s := &Service{options: o, folder: folder{path: o.Dir, merge: o.Merge}, overrides: newOverrides(), unmatched: o.Counters("").Allow}
	s.follower = filewatch.New(o.Dir, s.changed, s.unwatched)
	r, err := s.folder.read()
	if err != nil {
		return nil, fmt.Errorf("envoy-config: %w", err)
	}
	if len(r.domains) == 0 && len(r.errs) > 0 {
		return nil, fmt.Errorf("envoy-config: %w", r.err())
	}
	s.install(r)
	return s, nil
}

func (o Options) setDefaults() Options {
	if o.Counters == nil {
		o.Counters = noCounters
	}
	if o.Loaded == nil {
		o.Loaded = func(int) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run follows the configuration until ctx ends. Call it once.
func (s *Service) Run(ctx context.Context) { s.follower.Run(ctx) }

// Following is closed once changes of the configuration are noticed.
func (s *Service) Following() <-chan struct{} { return s.follower.Following() }

// Reload asks Run to read the configuration again. It does not wait.
func (s *Service) Reload() { s.follower.Reload() }

// changed is called by the follower.
func (s *Service) changed(asked bool) {
	r, err := s.folder.read()
	switch {
	case err != nil:
		s.options.Loaded(1)
		s.options.Logger.Error("envoy-config kept", slog.String("error", err.Error()))
	case r.changed || asked:
		s.install(r)
	}
}

func (s *Service) unwatched(err error) {
	s.options.Logger.Error("envoy-config: " + err.Error())
}

// install puts what was read in force. Requests that are being decided keep
// what they began with.
func (s *Service) install(r *reading) {
	for _, f := range r.domains {
		for _, l := range f.limits {
			if l.counters.Allow == nil { // in force already otherwise
				l.counters = s.options.Counters(l.path)
			}
		}
	}
	s.domains.Store(&r.domains)
	s.options.Loaded(len(r.errs))
	s.tell(r)
}

func (s *Service) tell(r *reading) {
	for _, w := range r.warnings {
		s.options.Logger.Warn("envoy-config: " + w.Error())
	}
	for _, err := range r.errs {
		s.options.Logger.Error("envoy-config: the last good version of this file serves, if there is one", slog.String("error", err.Error()))
	}
	if len(r.domains) == 0 {
		s.options.Logger.Warn("envoy-config: there is no domain, so that nothing is limited")
	}
	s.options.Logger.Info("envoy-config read", "domains", len(r.domains), "files_with_mistakes", len(r.errs))
}
