package adminapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
)

// A limit counts a caller on all nodes, and each node has a sample of its own requests. Whoever
// changes the rules can bring the samples of the other nodes along, sealed, so that the impact
// is that on the requests of all of them.

const (
	// leastSample is the least room for a sample, in bytes.
	leastSample = 64 << 10
	// maxSamples bounds the samples that one request brings.
	maxSamples = 63
	// sampleCopies bounds the memory of an answer with a sample, in sizes of the sample: itself, and
	// its text in the answer, which the encoder may hold twice while it grows.
	sampleCopies = 4
)

var errNoSample = notFound("this server keeps no requests (start it with --impact-limit)")

type sampleBody struct {
	Sample []byte `json:"sample"`
}

// sample answers GET /v1/sample?bytes=1048576 with the sample of this node, which only other
// nodes with the same secret can open.
func (a *API) sample(r *request) (any, error) {
	size, err := r.number("bytes", impact.MaxSealed, leastSample, impact.MaxSealed)
	if err != nil {
		return nil, err
	}
	if a.Sample == nil {
		return nil, errNoSample
	}
	shrink, release, err := r.bodies.reserveAnswer(r.Context(), int64(size)*sampleCopies)
	if err != nil {
		return nil, err
	}
	r.release = release
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	sealed, err := a.Sample.Seal(int(size))
	shrink(int64(len(sealed)) * sampleCopies)
	if errors.Is(err, impact.ErrAlone) {
		return nil, &apiError{Status: http.StatusConflict, Code: "ALONE", Message: err.Error()}
	}
	return sampleBody{sealed}, err
}

// withSamples separates the samples of other nodes from a whole set in a body: from
// {"text":"rules: …","samples":["…"]}, or with "files" in place of "text". Another body is a
// set without samples; a rule file has no such members.
func (a *API) withSamples(data []byte) (set []byte, others []*impact.Part, err error) {
	var body struct {
		Text    *string         `json:"text"`
		Files   json.RawMessage `json:"files"`
		Samples json.RawMessage `json:"samples"`
	}
	isObject := json.Unmarshal(data, &body) == nil // otherwise it is YAML
	switch {
	case !isObject || body.Text == nil && body.Samples == nil:
		return data, nil, nil
	case (body.Text == nil) == (body.Files == nil):
		return nil, nil, badRequest("body: has both text and files, or samples without either (give the rules as text or as files)")
	case body.Text != nil:
		data = []byte(*body.Text)
	}
	if body.Samples == nil {
		return data, nil, nil
	}
	var sealed [][]byte
	if err := samplesField(&sealed)(body.Samples); err != nil {
		return nil, nil, badRequest("samples: %v", err)
	}
	others, err = a.openSamples(sealed)
	return data, others, err
}

// samplesField reads a list of sealed samples.
func samplesField(out *[][]byte) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, out) != nil || len(*out) > maxSamples {
			return fmt.Errorf("is not a list of at most %d samples (copy each one from GET /v1/sample of another node)", maxSamples)
		}
		return nil
	}
}

// openSamples opens the samples of other nodes.
func (a *API) openSamples(sealed [][]byte) ([]*impact.Part, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	if a.Sample == nil {
		return nil, badRequest("samples: %s", errNoSample)
	}
	others, err := a.Sample.Open(sealed)
	if err != nil {
		return nil, badRequest("samples: %v", err)
	}
	return others, nil
}
