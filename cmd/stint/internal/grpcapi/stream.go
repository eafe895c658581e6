package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/cmd/stint/internal/tracing"
)

// Bounds of the unanswered requests of one stream: their number and their bytes.
// Beyond these the server does not read the stream until it has answered.
const (
	maxWaiting      = 256
	maxWaitingBytes = 1 << 20
)

// Stream answers checks and takes in the order in which they arrive. Requests that
// arrive while others are decided form the next round, which one call of the store
// decides.
func (s *Service) Stream(stream stintv1.LimiterService_StreamServer) error {
	if err := s.admit(stream.Context()); err != nil {
		return err
	}
	p := &pipe{
		service: s, stream: stream,
		parents: metadata.ValueFromIncomingContext(stream.Context(), "traceparent"),
		waiting: make(chan waits, maxWaiting),
		room:    semaphore.NewWeighted(maxWaitingBytes),
		ended:   make(chan error, 3),
	}
	p.slow = time.AfterFunc(s.options.WriteTimeout, p.cutOff)
	p.slow.Stop() // the timer runs only while an answer is written
	go p.guard(p.read)
	go p.guard(p.answer)
	return <-p.ended // returning ends the stream's context, and with it read and answer
}

// pipe is one stream.
type pipe struct {
	service *Service
	stream  stintv1.LimiterService_StreamServer
	parents []string            // the trace context of the stream
	waiting chan waits          // closed after the last request
	room    *semaphore.Weighted // maxWaitingBytes minus the unanswered bytes
	ended   chan error          // one place for each of read, answer and cutOff
	slow    *time.Timer
}

// waits is an unanswered request and its size in bytes.
type waits struct {
	message *stintv1.StreamRequest
	size    int64
}

// guard runs part and turns a panic into the end of this stream. Without it the
// process would end: interceptors recover panics only on the goroutine that they
// called.
func (p *pipe) guard(part func()) {
	defer func() {
		if bug := recover(); bug != nil {
			p.ended <- p.service.failed(context.Background(), fmt.Errorf("panic on a stream: %v\n%s", bug, debug.Stack()))
		}
	}()
	part()
}

// cutOff ends a stream whose client does not read answers.
func (p *pipe) cutOff() {
	select {
	case p.ended <- status.Errorf(codes.DeadlineExceeded, "the answers were not read within %v (read them while sending)", p.service.options.WriteTimeout):
	default: // the stream is already ending
	}
}

// read queues requests until the client closes the stream or the stream ends.
func (p *pipe) read() {
	defer close(p.waiting)
	for {
		m, err := p.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			p.ended <- err
			return
		}
		if !p.queue(m) {
			return
		}
	}
}

// queue adds a request when there is room for it. It returns false if the stream ends
// first.
func (p *pipe) queue(m *stintv1.StreamRequest) bool {
	ctx := p.stream.Context()
	w := waits{m, min(int64(proto.Size(m)), maxWaitingBytes)}
	if p.room.Acquire(ctx, w.size) != nil {
		return false
	}
	select {
	case p.waiting <- w:
		return true
	case <-ctx.Done():
		return false
	}
}

// answer decides queued requests until the stream ends.
func (p *pipe) answer() {
	for {
		select {
		case w, more := <-p.waiting:
			if !more {
				p.ended <- nil
				return
			}
			if err := p.round(w); err != nil {
				p.ended <- err
				return
			}
		case <-p.service.drained:
			p.ended <- p.leave()
			return
		}
	}
}

// leave answers the queued requests and ends the stream with Unavailable, so that the
// client opens one elsewhere.
func (p *pipe) leave() error {
	for len(p.waiting) > 0 {
		if err := p.round(<-p.waiting); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "the server is stopping: open another stream, and repeat the requests without an answer")
}

// round decides a request together with those queued after it.
func (p *pipe) round(first waits) error {
	r, size := p.service.rounds.Get().(*round), int64(0) //nolint:forcetypeassert // the pool holds nothing else
	defer r.release()
	for w := first; w.message != nil; w = p.next(r) {
		r.addMessage(w.message)
		size += w.size
	}
	defer p.room.Release(size)
	ctx, span := p.service.options.Traced.Messages(p.stream.Context(), stintv1.LimiterService_Stream_FullMethodName)
	if span != nil {
		defer func() { span.End() }() // deferred by itself, it would record the text of a panic
	}
	r.SetSpan(tracing.RefOf(ctx, p.parents))
	r.Decide(ctx, time.Now())
	response := r.streamResponse()
	p.service.log(ctx, r.Failure())
	return p.send(response)
}

// next returns the next queued request. It returns the zero value if there is none, or
// the round is full.
func (p *pipe) next(r *round) waits {
	if r.Len() >= maxWaiting {
		return waits{}
	}
	select {
	case w := <-p.waiting:
		return w // zero once it is closed
	default:
		return waits{}
	}
}

// send writes an answer, and bounds the time in which the client reads it.
func (p *pipe) send(m *stintv1.StreamResponse) error {
	p.slow.Reset(p.service.options.WriteTimeout)
	defer p.slow.Stop()
	return p.stream.Send(m)
}

// addMessage adds the check or take of a stream's message.
func (r *round) addMessage(m *stintv1.StreamRequest) {
	r.ids = append(r.ids, m.GetId())
	var err error
	switch {
	case m.GetCheck() != nil:
		err = r.addCheck(m.GetCheck())
	case m.GetTake() != nil:
		var t take
		if t, err = takeOf(m.GetTake()); err == nil {
			err = r.addTake(&t)
		}
	default:
		err = badRequest("request: is missing (give check or take)")
	}
	if err != nil {
		r.Fail(err)
	}
}

// streamResponse returns the answers to all items, in order.
func (r *round) streamResponse() *stintv1.StreamResponse {
	answers := make([]*stintv1.Answer, r.Len())
	for i := range answers {
		answers[i] = &stintv1.Answer{Id: r.ids[i]}
		a, err := r.Answer(i)
		switch {
		case err != nil:
			answers[i].Answer = &stintv1.Answer_Failure{Failure: failureOf(0, err)}
		case a.Outcome != nil:
			answers[i].Answer = &stintv1.Answer_Check{Check: checkResponse(a)}
		default:
			combined, limits := takeDecisions(a)
			answers[i].Answer = &stintv1.Answer_Take{Take: &stintv1.TakeResponse{Decision: combined, Limits: limits}}
		}
	}
	return &stintv1.StreamResponse{Answers: answers}
}
