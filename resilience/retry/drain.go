package retry

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

// Before a retry, up to keepBytes of the response are read, for up to keepTime, so that
// its connection is free during the wait.
const (
	drainBytes = 16 << 10
	drainTime  = 50 * time.Millisecond
)

var errCut = errors.New("retry: the response was cut off to free its connection for a retry, which was not sent")

// drain closes a response and keeps the part of its body that it could read, for the
// caller that gets the response if the retry is not sent.
func drain(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	body := resp.Body
	closing := time.AfterFunc(drainTime, func() { _ = body.Close() })
	read, err := io.ReadAll(io.LimitReader(body, drainBytes+1))
	inTime := closing.Stop()
	_ = body.Close()
	resp.Body = &drained{read: bytes.NewReader(read), end: endOf(len(read), err, inTime)}
}

// endOf returns the error at the end of a kept body.
func endOf(read int, err error, inTime bool) error {
	switch {
	case read > drainBytes:
		return errCut
	case err == nil:
		return io.EOF
	case !inTime:
		return errCut
	}
	return err
}

// drained is a body that has been read.
type drained struct {
	read *bytes.Reader
	end  error
}

func (k *drained) Read(p []byte) (int, error) {
	if k.read.Len() == 0 {
		return 0, k.end
	}
	return k.read.Read(p)
}

func (k *drained) Close() error { return nil }
