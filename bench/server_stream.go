package main

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// sharedStream is a stream that several callers share, each with one request in flight.
type sharedStream struct {
	mu struct { // guards Send
		sync.Mutex

		stream grpc.BidiStreamingClient[stintv1.StreamRequest, stintv1.StreamResponse]
	}
	waiting []chan bool // by the id of the request; closed when the stream ends
}

// openStreams opens one stream on each connection.
func openStreams(ctx context.Context, conns []*grpc.ClientConn) ([]*sharedStream, error) {
	streams := make([]*sharedStream, len(conns))
	for i, conn := range conns {
		stream, err := stintv1.NewLimiterServiceClient(conn).Stream(ctx)
		if err != nil {
			return nil, err
		}
		s := &sharedStream{waiting: make([]chan bool, serverCallers)}
		s.mu.stream = stream
		for id := range s.waiting {
			s.waiting[id] = make(chan bool, 1)
		}
		streams[i] = s
		go s.read(stream)
	}
	return streams, nil
}

// read passes every answer to the caller that waits for it, until the connection closes.
func (s *sharedStream) read(stream grpc.BidiStreamingClient[stintv1.StreamRequest, stintv1.StreamResponse]) {
	for {
		r, err := stream.Recv()
		if err != nil {
			for _, w := range s.waiting {
				close(w)
			}
			return
		}
		for _, a := range r.GetAnswers() {
			s.waiting[a.GetId()] <- a.GetTake().GetDecision().GetAllowed()
		}
	}
}

func (s *sharedStream) ask(r *stintv1.StreamRequest) bool {
	s.mu.Lock()
	err := s.mu.stream.Send(r)
	s.mu.Unlock()
	return err == nil && <-s.waiting[r.GetId()]
}

// askStream takes one key at a time over the stream of a connection.
func askStream(streams []*sharedStream, keys []string) func(caller int) bool {
	takes, walks := takeRequests(), walks(keys, serverCallers)
	requests := make([]*stintv1.StreamRequest, serverCallers)
	for i := range requests {
		requests[i] = &stintv1.StreamRequest{Id: uint64(i), Request: &stintv1.StreamRequest_Take{Take: takes[i]}}
	}
	return func(caller int) bool {
		takes[caller].Key = walks[caller].take(1)[0]
		return streams[caller%len(streams)].ask(requests[caller])
	}
}
