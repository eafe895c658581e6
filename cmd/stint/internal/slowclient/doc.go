// Package slowclient cuts off clients that hold resources of the server without making
// progress, by accident or on purpose.
//
// The problem: a connection, a call or a stored answer costs the server memory for as
// long as the client likes. net/http and grpc-go bound the time of a handshake, a header
// and a whole request, and end connections that answer no ping. They have no bound where
// the length is unknown in advance (a forwarded body, a stream, a profile of minutes),
// and none for a client that is alive at one layer and stuck at the next: it answers
// pings but keeps its flow-control window closed, or sends half a message.
//
// The approach: require progress instead of a total. Each part of an answer, a body or a
// message must pass within a timeout, so a transfer of any length goes on while its
// client takes part. What cannot be bounded by time is bounded by a budget (the memory of
// large headers, [HeaderRoom]) or by a count (denials in a row, [Denials]).
//
//	a client that ...                               is cut off by
//	does not read what is written                   [Connections]
//	does not read one answer of many on HTTP/2      [Answers]
//	does not send the rest of a body                [Bodies]
//	does not send the rest of a gRPC message        [Messages]
//	keeps gRPC's flow-control windows closed        [Windows]
//	holds large headers on many connections         [HeaderRoom]
//	goes on after denial upon denial                [Denials]
//	connects again and again, or too often          [Addresses]
//
// A client that leaves while its request is served is no burden once that is noticed, which
// [ConnContext] does at less cost than net/http.
//
// The bound: with a timeout T, a client without progress holds a resource for at most
// about 1.5 T, or T and a scan interval. A client that makes the least progress that
// counts can hold what it uses for longer: time bounds what a silent client costs, and
// only limits on connections and streams bound what a patient one does.
package slowclient
