package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// work is one request to an endpoint that decides, with all its buffers. It is pooled, so
// that a decision allocates none of them.
type work struct {
	*decide.Batch

	api     *API
	strings decide.Strings
	inputs  []*input // buffers; the first used are in use
	used    int

	key    string   // the Idempotency-Key of the request; empty: none
	digest [16]byte // of the body, if there is a key
	items  bool     // the body is a batch of items
	take   bool     // the endpoint has takes only

	body, out []byte
}

// Bounds on what the pool keeps for the next request: bytes of a buffer, and inputs.
const (
	maxKept       = 256 << 10
	maxKeptInputs = 256
)

// release returns the work to the pool, without the data of the request.
func (k *work) release() {
	k.End()
	for _, in := range k.inputs[:k.used] {
		in.reset()
	}
	k.used, k.key, k.items = 0, "", false
	if max(cap(k.body), cap(k.out)) <= maxKept && len(k.inputs) <= maxKeptInputs {
		k.api.works.Put(k)
	}
}

// The endpoints that have checks; /v1/batch has takes too.
const (
	checkPath = "/v1/check"
	batchPath = "/v1/batch"
)

// single returns the handler of an endpoint whose body is one item: an object of the known
// members, which add adds to the batch.
func (a *API) single(known members, add func(*work, *input) error) http.HandlerFunc {
	read := func(k *work) error { return k.read(k.body, known, add) }
	return a.endpoint(read, (*work).answerSingle)
}

// endpoint returns a handler that reads the body, decides its items, and then answers.
func (a *API) endpoint(read func(*work) error, answer func(*work, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k := a.works.Get().(*work) //nolint:forcetypeassert // the pool holds nothing else
		defer k.release()
		k.take = r.URL.Path != checkPath && r.URL.Path != batchPath
		arrived, err := k.readRequest(w, r, read)
		if err != nil {
			k.Reject(k.take)
			a.errors.write(w, r, err)
			return
		}
		k.Decide(r.Context(), arrived)
		answer(k, w, r)
	}
}

// readRequest reads the header and the body of a request, and adds its items. It returns
// when the request had arrived.
func (k *work) readRequest(w http.ResponseWriter, r *http.Request, read func(*work) error) (arrived time.Time, err error) {
	if k.body, err = readBody(w, r, k.body); err != nil {
		return arrived, err
	}
	if err = k.readKey(r.Header); err != nil {
		return arrived, err
	}
	k.SetSpan(tracing.RefOf(r.Context(), r.Header[w3ctrace.Parent]))
	arrived = time.Now()
	return arrived, read(k)
}

// read parses one item and adds it.
func (k *work) read(raw []byte, known members, add func(*work, *input) error) error {
	if k.used == len(k.inputs) {
		k.inputs = append(k.inputs, new(input))
	}
	in := k.inputs[k.used]
	k.used++
	if err := in.read(raw, known, k); err != nil {
		return err
	}
	if known&memberRequestID == 0 || k.key == "" && in.requestID == "" { // nearly always
		return add(k, in)
	}
	once, err := k.onceOf(in, raw)
	if err != nil {
		return err
	}
	if err := add(k, in); err != nil {
		return err
	}
	k.Once(once)
	return nil
}

// addCheck adds a check of the rules.
func (k *work) addCheck(in *input) error {
	if in.given&memberAttributes == 0 {
		return badRequest("attributes: is missing: say what the request is, such as {\"attributes\":{\"api_key\":\"k\",\"path\":\"/\"}}")
	}
	cost, err := in.readCost()
	if err != nil {
		return err
	}
	return k.Check(&in.attributes, cost)
}

// addTake adds a take of the limits that the caller sends.
func (k *work) addTake(in *input) error {
	if err := in.readTake(); err != nil {
		return err
	}
	return k.Take(&in.take)
}

// addRefund adds a refund of what a take charged.
func (k *work) addRefund(in *input) error {
	if err := in.readTake(); err != nil {
		return err
	}
	return k.Refund(&in.take)
}

// addPeek adds a check or a take that charges nothing.
func (k *work) addPeek(in *input) error {
	check, err := in.isCheck()
	switch {
	case err != nil:
		return err
	case check:
		return k.Check(&in.attributes, 0)
	}
	if err := in.readTake(); err != nil {
		return err
	}
	in.take.Cost = 0
	return k.Take(&in.take)
}

// answerSingle writes the answer to the only item.
func (k *work) answerSingle(w http.ResponseWriter, r *http.Request) {
	a, err := k.Answer(0)
	if err != nil {
		k.api.errors.write(w, r, err)
		return
	}
	status := http.StatusOK
	if a.Unavailable {
		status = http.StatusServiceUnavailable
		setRetryAfter(w.Header(), a.Decision.RetryAfter)
	}
	k.out = appendAnswer(k.out[:0], a)
	k.write(w, status)
}

// setRetryAfter sets Retry-After in whole seconds, at least 1.
func setRetryAfter(h http.Header, wait time.Duration) {
	if wait != stint.Never {
		h.Set("Retry-After", strconv.FormatInt(max(1, (milliseconds(wait)+999)/1000), 10))
	}
}

// write sends the buffered answer.
func (k *work) write(w http.ResponseWriter, status int) {
	k.out = append(k.out, '\n')
	h := w.Header()
	setJSON(h)
	h.Set("Content-Length", strconv.Itoa(len(k.out)))
	w.WriteHeader(status)
	_, _ = w.Write(k.out) // the client may be gone
}

// MaxBody bounds the body of a request, in bytes. A longer body is answered with 413
// without being read to its end.
const MaxBody = 1 << 20

// readBody reads the body into buffer, which grows as needed, up to MaxBody bytes. It
// returns an error unless the body is one valid JSON value in UTF-8.
func readBody(w http.ResponseWriter, r *http.Request, buffer []byte) ([]byte, error) {
	body, err := appendAll(buffer[:0], http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return body, &apiError{http.StatusRequestEntityTooLarge, codeTooLarge,
			fmt.Sprintf("body: is larger than %d bytes", MaxBody)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return body, &apiError{http.StatusRequestTimeout, codeInvalid, "body: did not arrive in time"}
	case err != nil:
		return body, badRequest("body: broke off before its end")
	case !utf8.Valid(body):
		return body, badRequest("body: is not valid UTF-8")
	case !json.Valid(body):
		return body, badRequest("body: is not JSON: %v", json.Unmarshal(body, new(any)))
	}
	return body, nil
}

// appendAll is io.ReadAll into the caller's buffer.
func appendAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, make([]byte, max(512, len(b)))...)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
