package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"unicode/utf8"
)

// maxBody bounds the body of an API request, in bytes. A longer body is answered with 413
// without being read to its end.
const maxBody = 1 << 20

// readBody reads the body into buffer, which grows as needed, up to maxBody bytes. It
// returns an error unless the body is one valid JSON value in UTF-8.
func readBody(w http.ResponseWriter, r *http.Request, buffer []byte) ([]byte, error) {
	body, err := appendAll(buffer[:0], http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return body, &apiError{http.StatusRequestEntityTooLarge, codeTooLarge,
			fmt.Sprintf("body: is larger than %d bytes", maxBody)}
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
