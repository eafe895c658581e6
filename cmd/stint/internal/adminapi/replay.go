package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/rule"
)

// A replay decides recorded traffic by the rules in force, and by a draft beside them. It has
// counters of its own in memory, so it never touches the state of a key.
//
// Its work and its memory grow with the traffic, and callers have made up the keys in it. So a
// server runs one replay at a time, with bounds on the events, on the keys that are counted, on
// the bytes of the upload and on the time. A replay that meets a bound reports what it has
// decided so far.
//
// The replay reads the upload while it arrives, so a recording is never stored. A client that
// sends nothing, or very little, would then keep the others waiting until the bound on the time.
// So an upload has to keep a pace ([pacedReader]), and other replays wait for their turn longer
// than a silent client can hold it.

// replayBounds are the bounds of one replay.
type replayBounds struct {
	events int64
	keys   int   // that each of the two rule sets counts
	bytes  int64 // of the upload, as it is sent
	time   time.Duration
	silent time.Duration // for which an upload may be behind its pace
	turn   time.Duration // for which a replay waits for those before it
}

func defaultReplayBounds() replayBounds {
	return replayBounds{events: 1_000_000, keys: 500_000, bytes: 256 << 20, time: time.Minute, silent: 10 * time.Second, turn: 15 * time.Second}
}

const (
	// progressEvery is the least time between two events of progress.
	progressEvery = 250 * time.Millisecond
	// mostReplayRules bounds the rules that a report lists: those with the most denials.
	mostReplayRules = 200
	// maxReplayField is the longest text of a part that is neither rules nor traffic.
	maxReplayField = 200
)

// replayRequest is what a replay is asked for.
type replayRequest struct {
	options replay.Options
	input   replay.Input
	size    int64 // of the input in bytes; -1: unknown
	files   int   // of the decision log; 0: the input is an upload
	leftOut bool  // older lines of the decision log are left out
	close   func()
	release func() // ends the turn
}

// replayProgress is the event progress.
type replayProgress struct {
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
	// Size is the length of the input in bytes, if it is known.
	Size int64 `json:"size,omitempty"`
}

// replayReport is the event report, which is the last one.
type replayReport struct {
	Complete bool `json:"complete"`
	// Stopped is why the report covers only the first part of the traffic: events, keys, bytes,
	// time, upload or input; or failure, with an empty report.
	Stopped string `json:"stopped,omitempty"`
	// Problem says what is wrong with the input, or with the replay.
	Problem string `json:"problem,omitempty"`
	// Files is the number of files of the decision log; 0 for an upload. OlderLeftOut says that
	// older lines of it are left out, because it is longer than an input may be.
	Files        int  `json:"files,omitempty"`
	OlderLeftOut bool `json:"older_left_out,omitempty"`
	// Penalties are rules whose penalties a replay does not count, so live they deny more.
	Penalties []string `json:"penalties,omitempty"`
	// RulesLeftOut is the number of rules without an entry in the report.
	RulesLeftOut int           `json:"rules_left_out,omitempty"`
	Report       replay.Report `json:"report"`
}

// postReplay answers POST /v1/replay with server-sent events: the progress, and then the report.
func (a *API) postReplay(r *request) (any, error) {
	if err := a.takeReplay(r.Context()); err != nil {
		return nil, err
	}
	release, answering := sync.OnceFunc(a.replaying.end), false
	defer func() {
		if !answering {
			release()
		}
	}()
	control := http.NewResponseController(r.w)
	upload := &pacedReader{ReadCloser: r.Body, control: control, silent: a.replayBounds.silent}
	r.Body = upload
	q, err := a.readReplay(r)
	if err != nil {
		release()
		upload.discard(a.replayBounds.bytes)
		return nil, err
	}
	q.release, answering = release, true
	if r.ProtoMajor == 1 { // the rest of an upload that is not read would be taken for the next request
		r.w.Header().Set("Connection", "close")
	}
	return events(func(out *eventWriter) string {
		defer q.release()
		defer q.close()
		// net/http closes the body after this, and would wait for a read that has not ended.
		defer func() { _ = control.SetReadDeadline(time.Now()) }()
		a.runReplay(r, q, upload, out)
		return ""
	}), nil
}

// takeReplay waits for the turn of a replay.
func (a *API) takeReplay(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.replayBounds.turn)
	defer cancel()
	if a.replaying.take(ctx) != nil {
		return &apiError{Status: http.StatusServiceUnavailable, Code: codeBusy, Message: "another replay is running on this server, which runs one at a time (wait for its end, or use stint replay)"}
	}
	return nil
}

// readReplay reads the parts of the body up to the traffic, which the replay itself reads.
func (a *API) readReplay(r *request) (*replayRequest, error) {
	set, on := a.Rules.Current()
	q := &replayRequest{size: -1, close: func() {}}
	q.options = replay.Options{Rules: set, Reorder: replay.DefaultReorder, Top: 20, Hash: a.HashKey, MostKeys: a.replayBounds.keys}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, badRequest("body: is not a form (send multipart/form-data with a part log, such as curl -F draft=@rules.yaml -F log=@access.log)")
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, badRequest("log: is missing (send a recording in this last part, or the part source with the text decision_log)")
		}
		if err != nil {
			return nil, badRequest("body: ends within a part, or arrives at less than %d KiB a second (send it again)", uploadPace>>10)
		}
		name := part.FormName()
		if name == "log" {
			_ = http.NewResponseController(r.w).EnableFullDuplex() // HTTP/2 needs no such call
			q.input = replay.Input{Name: "upload", Reader: &boundReader{part, a.replayBounds.bytes}}
			return q, nil
		}
		text, err := readPart(name, part)
		if err != nil {
			return nil, err
		}
		switch name {
		case "draft":
			err = a.readDraft(r.Context(), q, text, on.Files)
		case "source":
			if string(text) != "decision_log" {
				return nil, badRequest("source: %.40q is not known (use decision_log, or send the part log)", text)
			}
			return q, a.openDecisionLog(q)
		default:
			err = q.set(name, string(text), a.now())
		}
		if err != nil {
			return nil, err
		}
	}
}

// readPart reads a part that is not the traffic.
func readPart(name string, part *multipart.Part) ([]byte, error) {
	most := int64(maxReplayField)
	if name == "draft" {
		most = maxBody
	}
	text, err := io.ReadAll(io.LimitReader(part, most+1))
	switch {
	case err != nil:
		return nil, badRequest("%.40s: did not arrive whole, or at less than %d KiB a second (send it again)", name, uploadPace>>10)
	case int64(len(text)) > most:
		return nil, badRequest("%.40s: is longer than %d bytes", name, most)
	}
	return text, nil
}

func (a *API) readDraft(ctx context.Context, q *replayRequest, text []byte, base []rule.File) error {
	if err := a.reading.take(ctx); err != nil {
		return err
	}
	defer a.reading.end()
	draft, err := rule.Parse(filesOf(text, base)...)
	q.options.Against, q.options.AgainstName = draft, "draft"
	return err
}

// set sets an option by its name.
func (q *replayRequest) set(name, text string, now time.Time) (err error) {
	o := &q.options
	switch name {
	case "since":
		o.Since, err = timeOf(name, text, now)
	case "until":
		o.Until, err = timeOf(name, text, now)
	case "format":
		if o.Format, err = replay.ParseFormat(text); err != nil {
			err = badRequest("%v", err)
		}
	case "top":
		n, wrong := strconv.Atoi(text)
		if o.Top = n; wrong != nil || n < 1 || n > 100 {
			err = badRequest("top: %.40q is not a whole number from 1 to 100", text)
		}
	default:
		err = badRequest("%.40q: is not a known part (use draft, since, until, format, top, and then source or log)", name)
	}
	return err
}

// errMostEvents ends a replay at the bound of its events.
var errMostEvents = errors.New("the replay has decided as many events as it may")

// runReplay replays and sends the events.
func (a *API) runReplay(r *request, q *replayRequest, upload *pacedReader, out *eventWriter) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	upload.slow = func() { cancel(errSlowUpload) }
	ctx, end := context.WithTimeout(ctx, a.replayBounds.time)
	defer end()
	if a.Live != nil {
		go func() {
			select {
			case <-a.Live.Closed(): // the server stops
				cancel(context.Canceled)
			case <-ctx.Done():
			}
		}()
	}
	shown := time.Now()
	q.options.Progress = func(p replay.Progress) {
		if p.Events >= a.replayBounds.events {
			cancel(errMostEvents)
		}
		// Many proxies and browsers end an upload when its answer begins, so that waits for the whole.
		sends := q.files > 0 || upload.whole.Load()
		if now := time.Now(); sends && now.Sub(shown) >= progressEvery {
			shown = now
			out.sendJSON("progress", replayProgress{p.Events, p.Bytes, max(q.size, 0)})
			if out.flush(); out.err != nil {
				cancel(out.err) // the client has closed the stream
			}
		}
	}
	report, err := replay.Run(ctx, q.options, q.input)
	if r.Context().Err() != nil || out.err != nil {
		return
	}
	body := replayReport{Complete: err == nil, Report: report, Files: q.files, OlderLeftOut: q.leftOut, Penalties: penalized(&q.options)}
	if defect, panicked := errors.AsType[*replay.PanicError](err); panicked {
		a.Logger.Error("replay: a defect has ended the replay", "panic", fmt.Sprint(defect.Value), "stack", string(defect.Stack))
		body.Stopped, body.Problem = "failure", "a defect of the server has ended the replay (the log of the node has the cause)"
	} else if err != nil {
		if body.Stopped = stoppedBy(ctx, err); body.Stopped == "input" {
			body.Problem = problemOf(err, report.Unreadable)
		}
	}
	body.RulesLeftOut = cutRules(&body.Report)
	if q.release(); q.files == 0 && body.Stopped != "upload" {
		upload.discard(a.replayBounds.bytes)
	}
	out.sendJSON("report", body)
	out.flush()
}

// stoppedBy returns which bound has ended a replay with an error; input if none did.
func stoppedBy(ctx context.Context, err error) string {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errMostEvents):
		return "events"
	case errors.Is(err, replay.ErrMostKeys):
		return "keys"
	case errors.Is(err, errTooLong):
		return "bytes"
	case errors.Is(err, errSlowUpload), errors.Is(cause, errSlowUpload):
		return "upload"
	case cause != nil:
		return "time"
	}
	return "input"
}

// problemOf says what is wrong with an input, without what a read error may tell of this machine.
func problemOf(err error, unreadable int64) string {
	if unreadable > 0 {
		return fmt.Sprintf("%d lines cannot be read (unreadable_lines has the first)", unreadable)
	}
	if strings.Contains(err.Error(), "gzip") {
		return "the input is damaged: it begins as gzip and is not"
	}
	return "the input ended before its end"
}

// penalized returns the ids of the rules whose penalties a replay does not count.
func penalized(o *replay.Options) (ids []string) {
	for _, set := range []*rule.Set{o.Rules, o.Against} {
		if set == nil {
			continue
		}
		for _, r := range set.Rules() {
			if r.Mode == rule.Enforce && r.Penalty != nil && !slices.Contains(ids, r.ID) && len(ids) < mostReplayRules {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// cutRules keeps in a report the rules with the most denials, and returns the number of the
// others. The counts over time of 10,000 rules would have 100 MB.
func cutRules(r *replay.Report) (leftOut int) {
	r.PerRule, leftOut = most(r.PerRule, func(one *replay.RuleCount) int64 { return one.Denied })
	if r.Compare != nil {
		var more int
		r.Compare.PerRule, more = most(r.Compare.PerRule, func(one *replay.RuleChange) int64 { return one.Before + one.After })
		leftOut = max(leftOut, more)
	}
	return leftOut
}

// most keeps the mostReplayRules elements with the greatest counts, in their order.
func most[T any](list []T, count func(*T) int64) ([]T, int) {
	if len(list) <= mostReplayRules {
		return list, 0
	}
	byCount := make([]int, len(list))
	for i := range byCount {
		byCount[i] = i
	}
	slices.SortStableFunc(byCount, func(a, b int) int { return cmp.Compare(count(&list[b]), count(&list[a])) })
	kept := byCount[:mostReplayRules]
	slices.Sort(kept)
	out := make([]T, len(kept))
	for i, at := range kept {
		out[i] = list[at]
	}
	return out, len(list) - len(kept)
}
