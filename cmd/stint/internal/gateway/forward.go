package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// forwarder forwards ordinary requests itself, and leaves upgrades to the reverse proxy of
// the standard library, whose hooks it shares. That one clones the request deeply, starts
// a goroutine for each response and writes its header and its body apart, which costs more
// than all that Stint does with a request.
type forwarder struct{ *httputil.ReverseProxy }

// ServeHTTP forwards the request and copies the response.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isUpgrade(r.Header) {
		f.ReverseProxy.ServeHTTP(w, r)
		return
	}
	x := exchangeOf(r)
	out := x.outgoing(r)
	if out.Body != nil {
		defer func() { _ = out.Body.Close() }() // takes the body back; a lentBody has no error
	}
	x.proxied = httputil.ProxyRequest{In: r, Out: out}
	f.Rewrite(&x.proxied)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = noUserAgent
	}
	res, err := f.Transport.RoundTrip(out)
	x.endInforming()
	if err == nil && res.StatusCode < http.StatusOK {
		err = errors.Join(fmt.Errorf("the upstream answers %d", res.StatusCode), res.Body.Close())
	}
	if err != nil {
		f.ErrorHandler(w, out, err)
		return
	}
	f.respond(w, res)
}

// noUserAgent keeps http.Transport from sending its own.
var noUserAgent = []string{""}

// isUpgrade reports whether the request asks to switch protocols.
func isUpgrade(h http.Header) bool {
	return len(h["Upgrade"]) > 0 && httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade")
}

// outgoing returns a copy of the request without hop-by-hop fields. The values of its
// fields are those of r, and are replaced but never changed.
func (x *exchange) outgoing(r *http.Request) *http.Request {
	out := x.out.copy(r)
	out.Header, out.Close = x.headerFor(len(r.Header)), false
	for name, values := range r.Header {
		if !isHopByHop(name) {
			out.Header[name] = values
		}
	}
	dropNamed(out.Header, r.Header["Connection"])
	if httpguts.HeaderValuesContainsToken(r.Header["Te"], "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	if r.ContentLength == 0 {
		out.Body = nil // http.Transport repeats only requests without a body
	}
	if out.Body != nil {
		out.Body = &lentBody{Reader: out.Body}
	}
	return out
}

// isHopByHop reports whether a field concerns one connection.
func isHopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// dropNamed removes the fields that Connection names.
func dropNamed(h http.Header, connection []string) {
	for _, line := range connection {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.Trim(name, " \t"); !strings.EqualFold(name, "keep-alive") { // hop-by-hop anyway
				h.Del(name)
			}
		}
	}
}

// respond writes the response. It panics with [http.ErrAbortHandler] if the response
// breaks off.
func (f *forwarder) respond(w http.ResponseWriter, res *http.Response) {
	dropNamed(res.Header, res.Header["Connection"])
	for name := range res.Header {
		if isHopByHop(name) {
			delete(res.Header, name)
		}
	}
	if err := f.ModifyResponse(res); err != nil {
		_ = res.Body.Close() // the connection is closed; the error that counts is err
		f.ErrorHandler(w, res.Request, err)
		return
	}
	h := w.Header()
	addAll(h, res.Header)
	announced := len(res.Trailer)
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	w.WriteHeader(res.StatusCode)
	if err := f.copyBody(w, res); err != nil {
		_ = res.Body.Close() // err is the cause
		f.ErrorLog.Printf("the response broke off: %v", err)
		panic(http.ErrAbortHandler)
	}
	_ = res.Body.Close() // it was read to its end
	if len(res.Trailer) > 0 {
		_ = http.NewResponseController(w).Flush() // trailers need a chunked body; an unflushed one would get a length
	}
	if len(res.Trailer) == announced {
		addAll(h, res.Trailer)
		return
	}
	for name, values := range res.Trailer {
		h[http.TrailerPrefix+name] = values
	}
}

// addAll adds the fields in from, whose names are canonical.
func addAll(to, from http.Header) {
	for name, values := range from {
		if present := to[name]; len(present) > 0 {
			values = append(slices.Clip(present), values...)
		}
		to[name] = values
	}
}

// copyBody forwards each part of the body at once. A part is not flushed if more has
// already arrived, nor is the last part: the next write, or the end of the handler, does
// it. The header is flushed first unless the body has begun to arrive, or is empty: the
// status of gRPC in a header counts only if the stream ends with that header.
func (f *forwarder) copyBody(w http.ResponseWriter, res *http.Response) error {
	from := res.Body
	if from == http.NoBody {
		return nil
	}
	arrived, _ := from.(interface{ Ready() bool })
	flush := func() {
		if arrived == nil || !arrived.Ready() {
			_ = http.NewResponseController(w).Flush() // if the client has left, the next write fails too
		}
	}
	buffer := f.BufferPool.Get()
	defer f.BufferPool.Put(buffer)
	if res.ContentLength != 0 {
		flush()
	}
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil { //nolint:gosec // a proxy passes on what the upstream answers
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		flush()
	}
}
