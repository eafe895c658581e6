package adminapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// openDecisionLog opens the decision log of this server as the input.
func (a *API) openDecisionLog(q *replayRequest) error {
	if a.DecisionLog == "" {
		return notFound("source: this server writes no decision log to a file (start it with --decision-log FILE, or send the part log)")
	}
	o := &q.options
	log, err := decisionlog.OpenFiles(a.DecisionLog, o.Since, o.Until, a.replayBounds.bytes)
	if err != nil {
		a.Logger.Error("replay: the decision log cannot be read", "error", err)
		return &apiError{Status: http.StatusServiceUnavailable, Code: codeSource, Message: "source: the decision log cannot be read (the log of the node has the cause)"}
	}
	q.size, q.files, q.leftOut = log.Size, log.Files, log.OlderLeftOut
	q.input = replay.Input{Name: "decision log", Reader: log}
	q.close = func() { _ = log.Close() }
	return nil
}

var errTooLong = errors.New("the input is longer than this server replays")

// boundReader fails after a number of bytes.
type boundReader struct {
	from io.Reader
	left int64
}

func (b *boundReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// uploadPace is the least pace of an upload, in bytes a second.
const uploadPace = 64 << 10

// errSlowUpload ends an upload that does not keep its pace.
var errSlowUpload = errors.New("the upload is too slow")

// pacedReader reads the body of a request that has to arrive at a pace of at least uploadPace.
// Only the time in which the reader waits for the client counts, because a replay may be slower
// than the upload. A client may be behind the pace for the time silent, and never ahead of it:
// what it has sent fast does not let it be silent later.
type pacedReader struct {
	io.ReadCloser

	control *http.ResponseController
	silent  time.Duration
	// slow is called if the client is behind for too long. Nil: the read fails. It is set before
	// the first read of the traffic.
	slow func()
	// whole: the body is read to its end.
	whole atomic.Bool

	mu     sync.Mutex // held by a read: that of a replay that has ended may go on beside discard
	behind time.Duration
}

func (p *pacedReader) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	began := time.Now()
	end := began.Add(p.silent - p.behind)
	if p.slow != nil {
		defer time.AfterFunc(p.silent-p.behind, p.slow).Stop()
		end = end.Add(p.silent) // net/http ends a request with a failed read, and the report comes first
	}
	_ = p.control.SetReadDeadline(end)
	n, err := p.ReadCloser.Read(b)
	p.behind = max(0, p.behind+time.Since(began)-time.Duration(n)*time.Second/uploadPace)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && p.behind >= p.silent:
		return n, errSlowUpload
	case err != nil: // the whole body is read; a deadline would now end the request
		_ = p.control.SetReadDeadline(time.Time{})
		p.whole.Store(errors.Is(err, io.EOF))
	}
	return n, err
}

// discardTime bounds the time for the rest of an upload that the replay has not read.
const discardTime = time.Minute

// discard reads the rest of the body, up to a number of bytes. A client that is still sending when
// the server answers and closes the connection would lose the answer.
func (p *pacedReader) discard(most int64) {
	room := make([]byte, 64<<10)
	for end := time.Now().Add(discardTime); most > 0 && !p.whole.Load() && time.Now().Before(end); {
		n, err := p.Read(room)
		if most -= int64(n); err != nil {
			return
		}
	}
}
