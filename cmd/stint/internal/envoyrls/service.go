package envoyrls

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/filewatch"
	"github.com/stintdev/stint/internal/boundedcache"
)

// Options configures a [Service].
type Options struct {
	// Dir is the directory of the configuration files.
	Dir string
	// Merge lets several files describe one domain.
	Merge bool
	// Store decides.
	Store stint.Store
	// Consistency is that of limits whose configuration names none.
	Consistency stint.Consistency
	// Headers names the headers that Envoy adds to its responses, for the deciding
	// limit: the limit, what remains of it, and the seconds until it resets. Nil adds
	// none.
	Headers *HeaderNames
	// CountAll counts as Envoy's own service does: each limit by itself, and denied
	// requests too.
	CountAll bool
	// StopWhenOver, with CountAll, lets a request that would be over some of its
	// limits count only for these.
	StopWhenOver bool
	// Shadow answers OK to every request, whatever the statuses of its descriptors.
	Shadow bool
	// Quota puts every limit in quota mode: a request is over limit only if all its
	// descriptors are.
	Quota bool
	// Metadata adds a description of the request to the metadata of every response.
	Metadata bool
	// NearRatio is the share of a limit from which hits count as near it. 0 means 0.8.
	NearRatio float64
	// Counters returns the counters of a limit, by its name in the configuration and its
	// failure policy. The empty name is for requests without any limit. Nil counts nothing.
	Counters func(limit string, onFailure stint.OnFailure) Counters
	// Unmatched counts the requests that no limit applied to. Nil counts none.
	Unmatched Counter
	// Loaded, if not nil, is called after every attempt to load a changed
	// configuration, with the number of files that have a mistake.
	Loaded func(mistaken int)
	// Emergency returns the emergency whose limit decides before all others, or nil if none
	// is on. Nil: there is never one. ObserveEmergency, if not nil, is called with each of its
	// decisions.
	Emergency        func() *emergency.InForce
	ObserveEmergency func(*stint.Decision)
	// Decided, if not nil, is called with each request that got a decision; with DeniedOnly, with
	// those alone that are denied. Domains, if not nil, is called with the names of the domains
	// whenever a configuration comes into force.
	Decided    func(context.Context, *Decided)
	DeniedOnly bool
	Domains    func([]string)
	// Logger defaults to a logger that discards.
	Logger *slog.Logger
}

// HeaderNames are the names of three headers.
type HeaderNames struct{ Limit, Remaining, Reset string }

// Service implements Envoy's rate limit service. Make one with [New].
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	options   Options
	folder    folder // used by New, then by Run's goroutine only
	watcher   *filewatch.Watcher
	overrides *overrides
	plans     sync.Pool // a pool of *plan
	domains   atomic.Pointer[map[string]*file]
}

// New reads the configuration. It returns an error if there is nothing to serve: the
// directory cannot be read, or all its files have mistakes.
func New(o Options) (*Service, error) {
	o = o.setDefaults()
	s := &Service{options: o, folder: folder{path: o.Dir, merge: o.Merge, consistency: o.Consistency}, overrides: boundedcache.New[override, []*limit](maxOverrides)}
	s.watcher = filewatch.New(o.Dir, s.changed, func(err error) { o.Logger.Error("envoy-config: " + err.Error()) })
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
	o.NearRatio = cmp.Or(o.NearRatio, 0.8)
	if o.Counters == nil {
		o.Counters = noCounters
	}
	if o.Unmatched == nil {
		o.Unmatched = noCounter{}
	}
	if o.Loaded == nil {
		o.Loaded = func(int) {}
	}
	if o.Emergency == nil {
		o.Emergency = func() *emergency.InForce { return nil }
	}
	if o.ObserveEmergency == nil {
		o.ObserveEmergency = func(*stint.Decision) {}
	}
	if o.Domains == nil {
		o.Domains = func([]string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run watches the configuration until ctx ends. Call it once.
func (s *Service) Run(ctx context.Context) { s.watcher.Run(ctx) }

// Watching returns a channel that is closed once changes of the configuration are
// noticed.
func (s *Service) Watching() <-chan struct{} { return s.watcher.Watching() }

// Reload asks Run to read the configuration again. It does not wait.
func (s *Service) Reload() { s.watcher.Reload() }

// changed loads the configuration. The watcher calls it; forced is true after Reload.
func (s *Service) changed(forced bool) {
	r, err := s.folder.read()
	switch {
	case err != nil:
		s.options.Loaded(1)
		s.options.Logger.Error("envoy-config rejected; the previous configuration stays in force", slog.String("error", err.Error()))
	case r.changed || forced:
		s.install(r)
	}
}

// install puts a new configuration in force. Requests in progress finish with the old
// one.
func (s *Service) install(r *reading) {
	for _, f := range r.domains {
		for _, l := range f.limits {
			if l.counters.Allow == nil { // an unchanged limit is in force already
				l.counters = s.options.Counters(l.path, l.policy.OnFailure)
			}
		}
	}
	s.domains.Store(&r.domains)
	s.options.Domains(slices.Collect(maps.Keys(r.domains)))
	s.options.Loaded(len(r.errs))
	s.logReading(r)
}

func (s *Service) logReading(r *reading) {
	for _, w := range r.warnings {
		s.options.Logger.Warn("envoy-config: " + w.Error())
	}
	for _, err := range r.errs {
		s.options.Logger.Error("envoy-config: a file has mistakes; its last good version stays in force, if there is one", slog.String("error", err.Error()))
	}
	if len(r.domains) == 0 {
		s.options.Logger.Warn("envoy-config: no file defines a domain, so nothing is limited")
	}
	s.options.Logger.Info("envoy-config read", "domains", len(r.domains), "files_with_mistakes", len(r.errs))
}

// Counter is a metric that counts. The counters of Prometheus implement it.
type Counter interface{ Inc() }

// Counters count the outcomes of one limit: requests that it charged (Allow), requests
// that it denied (Deny), requests that it would have denied if it were not in shadow
// or quota mode (ShadowDeny), and requests that its failure policy decided because the
// store failed (Failed). FailedOpen counts those of the latter that were allowed because the
// limit fails open.
//
// Hits, if not nil, counts hits as Envoy's own service does. It is for CountAll.
type Counters struct {
	Allow, Deny, ShadowDeny, Failed, FailedOpen Counter

	Hits *Hits
}

type noCounter struct{}

func (noCounter) Inc() {}

func noCounters(string, stint.OnFailure) Counters {
	return Counters{noCounter{}, noCounter{}, noCounter{}, noCounter{}, noCounter{}, nil}
}
