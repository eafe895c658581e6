package adminapi

import (
	"bytes"
	"context"
	"encoding/csv"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxAudit is the number of entries that GET /audit can return. The log has all
// entries, and each version of the rules names its author.
const maxAudit = 1000

// maxRefused bounds those of them that were refused for the role of the sender. A viewer can send
// any number, and must not make the entries of the others vanish.
const maxRefused = maxAudit / 4

// audit records every change and its author.
type audit struct {
	log *slog.Logger

	mu      sync.Mutex
	entries []auditEntry // guarded by mu; the oldest first
	refused int          // guarded by mu; the number of entries with codeForbidden
}

// maxWhat bounds the description of a change, in bytes: callers choose the names
// of rules.
const maxWhat = 400

// auditEntry is one change, done or refused.
type auditEntry struct {
	Time time.Time `json:"time"`
	Who  string    `json:"who"`
	Role Role      `json:"role"`
	From string    `json:"from"` // the address
	What string    `json:"what"`
	// KeyHash is a hash of the key that the change is about, as in lists of denials.
	KeyHash string `json:"key_hash,omitempty"`
	Why     string `json:"why,omitempty"`
	Result  string `json:"result"` // done, unchanged, dry run, or the code of the error
	Forced  bool   `json:"forced,omitempty"`
	Version uint64 `json:"version,omitempty"` // the published version
}

func (l *audit) add(e auditEntry) {
	l.write(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Result == codeForbidden && l.refused == maxRefused {
		l.forgetLocked(slices.IndexFunc(l.entries, func(old auditEntry) bool { return old.Result == codeForbidden }))
	}
	if len(l.entries) == maxAudit {
		l.forgetLocked(0)
	}
	if e.Result == codeForbidden {
		l.refused++
	}
	l.entries = append(l.entries, e)
}

func (l *audit) forgetLocked(at int) {
	if l.entries[at].Result == codeForbidden {
		l.refused--
	}
	l.entries = slices.Delete(l.entries, at, at+1)
}

// write writes an entry to the log whatever the log's level is, because changes
// must leave a trace.
func (l *audit) write(e auditEntry) {
	line := slog.NewRecord(e.Time, slog.LevelInfo, "admin change", 0)
	line.Add("who", e.Who, "role", e.Role, "from", e.From, "what", e.What, "why", e.Why, "result", e.Result, "forced", e.Forced, "version", e.Version)
	_ = l.log.Handler().Handle(context.Background(), line) // a [slog.Logger] ignores the error too
}

// auditFilter selects entries. An empty field selects all.
type auditFilter struct {
	who, what, result, keyHash string
	since, until               time.Time
}

func (f *auditFilter) selects(e *auditEntry) bool {
	return (f.who == "" || f.who == e.Who) && (f.result == "" || f.result == e.Result) && (f.keyHash == "" || f.keyHash == e.KeyHash) &&
		(f.since.IsZero() || !e.Time.Before(f.since)) && (f.until.IsZero() || e.Time.Before(f.until)) &&
		(f.what == "" || strings.Contains(strings.ToLower(e.What+"\n"+e.Why), strings.ToLower(f.what)))
}

// newest returns the last n selected entries, the newest first.
func (l *audit) newest(n int, f auditFilter) []auditEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []auditEntry{}
	for i := len(l.entries) - 1; i >= 0 && len(list) < n; i-- {
		if f.selects(&l.entries[i]) {
			list = append(list, l.entries[i])
		}
	}
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
	e := auditEntry{Time: a.now().UTC(), Who: r.who.name, Role: r.who.role, From: r.RemoteAddr, What: strings.ToValidUTF8(what[:min(len(what), maxWhat)], ""), Why: why, Result: "done"}
	e.KeyHash = a.hashOf(r.key)
	return e
}

// hashOf returns the hash of a key, or "" for none.
func (a *API) hashOf(key string) string {
	if key == "" || a.HashKey == nil {
		return ""
	}
	return a.HashKey(key)
}

type auditBody struct {
	Entries []auditEntry `json:"entries"`
}

// auditLog answers GET /audit?n=100&who=…&what=…&result=…&key_hash=…&since=…&until=… with the
// changes since this process started, as CSV if the request prefers that.
func (a *API) auditLog(r *request) (any, error) {
	n, err := r.number("n", 100, 1, maxAudit)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	f := auditFilter{who: query.Get("who"), what: query.Get("what"), result: query.Get("result"), keyHash: query.Get("key_hash")}
	for name, at := range map[string]*time.Time{"since": &f.since, "until": &f.until} {
		if text := query.Get(name); text != "" {
			if *at, err = timeOf(name, text, a.now()); err != nil {
				return nil, err
			}
		}
	}
	list := a.audit.newest(int(n), f)
	if r.prefers("text/csv") {
		r.w.Header().Set("Content-Disposition", `attachment; filename="stint-audit.csv"`)
		return plainText{"text/csv; charset=utf-8", auditCSV(list)}, nil
	}
	return auditBody{list}, nil
}

// formula matches what spreadsheets take for a formula. Some of them skip blanks, and read the
// characters of East Asian keyboards.
var formula = regexp.MustCompile(`^[\s\x{a0}\x{3000}]*[=+\-@＝＋－＠]|^[\t\r]`)

// auditCSV returns entries as CSV. Names and reasons are what people wrote, so a value that a
// spreadsheet would take for a formula begins with an apostrophe.
func auditCSV(list []auditEntry) []byte {
	var b bytes.Buffer
	out := csv.NewWriter(&b) // a buffer takes everything, so it returns no error
	_ = out.Write([]string{"time", "who", "role", "from", "what", "key_hash", "why", "result", "forced", "version"})
	for _, e := range list {
		row := []string{e.Time.Format(time.RFC3339Nano), e.Who, string(e.Role), e.From, e.What, e.KeyHash, e.Why, e.Result, strconv.FormatBool(e.Forced), strconv.FormatUint(e.Version, 10)}
		for i, value := range row {
			if formula.MatchString(value) {
				row[i] = "'" + value
			}
		}
		_ = out.Write(row)
	}
	out.Flush()
	return b.Bytes()
}

// isChange reports whether a request may change something.
func isChange(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
