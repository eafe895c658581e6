package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"unicode/utf8"
)

// maxBody bounds the body of an API request, in bytes. A greater one is
// answered with 413 before it is read to its end.
const maxBody = 1 << 20

// readBody reads the whole body, and no more than maxBody of it. It is valid
// JSON, and nothing else.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &apiError{http.StatusRequestEntityTooLarge, codeTooLarge,
			fmt.Sprintf("body: is larger than %d bytes", maxBody)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &apiError{http.StatusRequestTimeout, codeInvalid, "body: did not arrive in time"}
	case err != nil:
		return nil, badRequest("body: broke off before its end")
	case !utf8.Valid(body):
		return nil, badRequest("body: is not valid UTF-8")
	case !json.Valid(body):
		return nil, badRequest("body: is not JSON: %v", json.Unmarshal(body, new(any)))
	}
	return body, nil
}
