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

// maxAudit bounds how many entries are kept to be asked for. The log has them
// all, and the versions of the rules who published them.
const maxAudit = 1000

// audit is the record of who changed what.
type audit struct {
	log *slog.Logger

	mu      sync.Mutex
	entries []auditEntry // guarded by mu; the oldest first
}

// maxWhat bounds what an entry says was done, in bytes: names of rules are the
// caller's choice.
const maxWhat = 400

// auditEntry is one change, or the attempt at one.
type auditEntry struct {
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`
	Role    Role      `json:"role"`
	From    string    `json:"from"` // the address
	What    string    `json:"what"`
	Why     string    `json:"why,omitempty"`
	Result  string    `json:"result"` // done, unchanged, dry run, or the code of the error
	Forced  bool      `json:"forced,omitempty"`
	Version uint64    `json:"version,omitempty"` // that came of it
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

// write writes an entry to the log whatever the log's level is: who wants no
// news has not asked for changes to leave no trace.
func (l *audit) write(e auditEntry) {
	line := slog.NewRecord(e.Time, slog.LevelInfo, "admin change", 0)
	line.Add("who", e.Who, "role", e.Role, "from", e.From, "what", e.What, "why", e.Why, "result", e.Result, "forced", e.Forced, "version", e.Version)
	_ = l.log.Handler().Handle(context.Background(), line) // as a logger does
}

// newest lists entries, the newest first.
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

// auditLog answers GET /audit?n=100: the changes since this process began.
func (a *API) auditLog(r *request) (any, error) {
	n, err := r.number("n", 100, 1, maxAudit)
	if err != nil {
		return nil, err
	}
	return auditBody{a.audit.newest(int(n))}, nil
}

// isChange reports whether a request may change anything.
func isChange(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
