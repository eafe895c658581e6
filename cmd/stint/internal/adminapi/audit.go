package adminapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxAudit is the number of entries that GET /audit can return. The log has all
// entries, and each version of the rules names its author.
const maxAudit = 1000

// audit records every change and its author.
type audit struct {
	log *slog.Logger

	mu      sync.Mutex
	entries []auditEntry // guarded by mu; the oldest first
}

// maxWhat bounds the description of a change, in bytes: callers choose the names
// of rules.
const maxWhat = 400

// auditEntry is one change, done or refused.
type auditEntry struct {
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`
	Role    Role      `json:"role"`
	From    string    `json:"from"` // the address
	What    string    `json:"what"`
	Why     string    `json:"why,omitempty"`
	Result  string    `json:"result"` // done, unchanged, dry run, or the code of the error
	Forced  bool      `json:"forced,omitempty"`
	Version uint64    `json:"version,omitempty"` // the published version
}

func (l *audit) add(e auditEntry) {
	l.write(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == maxAudit {
		l.entries = slices.Delete(l.entries, 0, 1)
	}
	l.entries = append(l.entries, e)
}

// write writes an entry to the log whatever the log's level is, because changes
// must leave a trace.
func (l *audit) write(e auditEntry) {
	line := slog.NewRecord(e.Time, slog.LevelInfo, "admin change", 0)
	line.Add("who", e.Who, "role", e.Role, "from", e.From, "what", e.What, "why", e.Why, "result", e.Result, "forced", e.Forced, "version", e.Version)
	_ = l.log.Handler().Handle(context.Background(), line) // a [slog.Logger] ignores the error too
}

// newest returns the last n entries, the newest first.
func (l *audit) newest(n int) []auditEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(l.entries[max(0, len(l.entries)-n):])
	slices.Reverse(list)
	return list
}

// audited records a change of the rules.
func (a *API) audited(r *request, what string, o *options, out *outcome, err error) {
	e := a.entry(r, what, o.comment)
	e.Forced, e.Result = o.force, "done"
	switch {
	case err != nil:
		e.Result = asError(err).Code
	case o.dryRun:
		e.Result = "dry run"
	case !out.Changed:
		e.Result, e.Version = "unchanged", out.Version
	default:
		e.Version = out.Version
	}
	a.audit.add(e)
}

func (a *API) entry(r *request, what, why string) auditEntry {
	return auditEntry{Time: a.now().UTC(), Who: r.who.name, Role: r.who.role, From: r.RemoteAddr, What: strings.ToValidUTF8(what[:min(len(what), maxWhat)], ""), Why: why, Result: "done"}
}

type auditBody struct {
	Entries []auditEntry `json:"entries"`
}

// auditLog answers GET /audit?n=100 with the changes since this process started.
func (a *API) auditLog(r *request) (any, error) {
	n, err := r.number("n", 100, 1, maxAudit)
	return auditBody{a.audit.newest(int(n))}, err
}

// isChange reports whether a request may change something.
func isChange(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
