package httpapi

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// A caller names a request by the member request_id, or by the header Idempotency-Key of
// the POST (draft-ietf-httpapi-idempotency-key-header). Both belong to the call of this
// API. Surfaces whose request is the one that is limited never read the header: a client
// could send one key with every request and never be counted.

// idempotencyKey is the header that names a request.
const idempotencyKey = "Idempotency-Key"

// readKey reads the Idempotency-Key of the request. All items of a batch share the digest
// of the body, so that a batch of many is hashed once.
func (k *work) readKey(h http.Header) (err error) {
	if k.key, err = keyOf(h); k.key != "" {
		k.digest = digest(k.body)
	}
	return err
}

// keyOf returns the Idempotency-Key of a request: a string of RFC 9651 in quotes, or its
// text without them. It returns "" if there is none.
func keyOf(h http.Header) (string, error) {
	lines := h[idempotencyKey]
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", badRequest("%s: is given %d times", idempotencyKey, len(lines))
	}
	key, ok := unquoted(lines[0])
	if !ok {
		return "", badRequest("%s: has a quote without an end, or text after it", idempotencyKey)
	}
	return key, within(idempotencyKey, decide.CheckRequestID(key))
}

// unquoted returns the text of a string in quotes, in which a backslash stands before a
// quote or a backslash. A text without quotes stays as it is.
func unquoted(value string) (text string, ok bool) {
	value = strings.Trim(value, " \t")
	if !strings.HasPrefix(value, `"`) {
		return value, true
	}
	var s strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; c {
		case '"':
			return s.String(), i == len(value)-1
		case '\\':
			if i++; i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", false
			}
			s.WriteByte(value[i])
		default:
			s.WriteByte(c)
		}
	}
	return "", false
}

// onceOf returns the Once of the item that was read from raw and has an id.
func (k *work) onceOf(in *input, raw []byte) (*stint.Once, error) {
	if k.key != "" && in.requestID != "" && (k.items || k.key != in.requestID) {
		return nil, badRequest("request_id: cannot stand beside another %s (give one of them)", idempotencyKey)
	}
	if k.key == "" {
		return &stint.Once{ID: in.requestID, Body: digest(raw)}, nil
	}
	id := k.key
	if k.items { // the header names the whole batch
		id += "\x00" + strconv.Itoa(k.used-1)
	}
	return &stint.Once{ID: id, Body: k.digest}, nil
}

func digest(text []byte) [16]byte {
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16])
}

// conflictOfAll returns the error of a batch in which every item fails because its request
// id belongs to another request, and nil in all other cases. Then the body of the POST is
// not that of the first one with its Idempotency-Key.
func (k *work) conflictOfAll() error {
	if k.key == "" {
		return nil
	}
	var last error
	for i := range k.Len() {
		if last = k.ErrorOf(i); !errors.Is(last, stint.CodeConflict) {
			return nil
		}
	}
	return last
}
