package native

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// maxWaiting bounds how many requests of a stream wait for their answer; a
// client that sends more is read no further until they have left.
const maxWaiting = 256

// Stream answers checks and takes in the order in which they come. Those that
// have come while others were decided are decided together.
func (s *Service) Stream(stream stintv1.LimiterService_StreamServer) error {
	if err := s.admit(stream.Context()); err != nil {
		return err
	}
	p := &pipe{
		service: s, stream: stream,
		waiting: make(chan *stintv1.StreamRequest, maxWaiting),
		ended:   make(chan error, 3),
	}
	p.slow = time.AfterFunc(time.Hour, p.cutOff)
	defer p.slow.Stop()
	go p.read()
	go p.answer()
	return <-p.ended // which ends the context of the stream, and so what still reads or writes
}

// pipe is one stream.
type pipe struct {
	service *Service
	stream  stintv1.LimiterService_StreamServer
	waiting chan *stintv1.StreamRequest // closed when no more come
	ended   chan error                  // room for each who can end it
	slow    *time.Timer
}

// cutOff ends a stream whose answers are not read.
func (p *pipe) cutOff() {
	select {
	case p.ended <- status.Errorf(codes.DeadlineExceeded, "the answers were not read within %v (read them while sending)", p.service.options.WriteTimeout):
	default: // it ends already
	}
}

// read takes in requests until the client, or the server, has no more.
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
		select {
		case p.waiting <- m:
		case <-p.stream.Context().Done():
			return
		}
	}
}

// answer decides what waits until the stream ends.
func (p *pipe) answer() {
	for {
		select {
		case m, more := <-p.waiting:
			if !more {
				p.ended <- nil
				return
			}
			if err := p.round(m); err != nil {
				p.ended <- err
				return
			}
		case <-p.service.drained:
			p.ended <- p.leave()
			return
		}
	}
}

// leave answers what has come, and sends the client elsewhere.
func (p *pipe) leave() error {
	for len(p.waiting) > 0 {
		if err := p.round(<-p.waiting); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "the server is stopping: open another stream, and ask again for what has no answer")
}

// round decides a request together with those that wait behind it.
func (p *pipe) round(first *stintv1.StreamRequest) error {
	r := p.service.borrowRound()
	defer r.end()
	for m := first; m != nil; m = p.next(r) {
		r.addMessage(m)
	}
	ctx := p.stream.Context()
	r.decide(ctx)
	return p.send(r.answers(ctx))
}

// next is a request that waits already; nil when there is none, or no room.
func (p *pipe) next(r *round) *stintv1.StreamRequest {
	if len(r.items) >= maxWaiting {
		return nil
	}
	select {
	case m := <-p.waiting:
		return m // nil once it is closed
	default:
		return nil
	}
}

// send writes an answer, for as long as a client may take to read it.
func (p *pipe) send(m *stintv1.StreamResponse) error {
	p.slow.Reset(p.service.options.WriteTimeout)
	defer p.slow.Stop()
	return p.stream.Send(m)
}

// addMessage adds what a message of a stream asks for.
func (r *round) addMessage(m *stintv1.StreamRequest) {
	switch {
	case m.GetCheck() != nil:
		r.addCheckMessage(m.GetId(), m.GetCheck())
	case m.GetTake() != nil:
		t := takeOf(m.GetTake())
		r.addTake(m.GetId(), &t)
	default:
		r.addWrong(m.GetId(), badRequest("request: is missing (give check or take)"))
	}
}

// answers are those to every item, in order.
func (r *round) answers(ctx context.Context) *stintv1.StreamResponse {
	answers := make([]*stintv1.Answer, len(r.items))
	for i := range r.items {
		it := &r.items[i]
		answers[i] = &stintv1.Answer{Id: it.id}
		var err error
		if it.isCheck {
			err = r.answerCheck(it, answers[i])
		} else {
			err = r.answerTake(it, answers[i])
		}
		if err != nil {
			r.service.log(ctx, err)
			answers[i].Answer = &stintv1.Answer_Failure{Failure: failureOf(0, err)}
		}
	}
	return &stintv1.StreamResponse{Answers: answers}
}

func (r *round) answerCheck(it *item, a *stintv1.Answer) error {
	response, err := r.checked(it)
	a.Answer = &stintv1.Answer_Check{Check: response}
	return err
}

func (r *round) answerTake(it *item, a *stintv1.Answer) error {
	claims, decisions, err := r.take(it)
	if err != nil {
		return err
	}
	face, limits := r.service.taken(claims, decisions)
	a.Answer = &stintv1.Answer_Take{Take: &stintv1.TakeResponse{Decision: face, Limits: limits}}
	return nil
}
