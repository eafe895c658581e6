package quorumstore

import (
	"context"
	"time"
)

// A server is one acceptor: a Redis or Valkey server with the scripts of this package. All
// methods are safe for concurrent use and return soon after their context ends. A method
// sends its request at most once.
//
// A reply that carries a status other than statusOK did nothing. An error says that the
// outcome is unknown, unless its code is CodeUnavailable: then nothing was sent.
//
// Times are microseconds since 1970 by the clock of that server, as TIME tells them.
type server interface {
	// name is the address, for errors and metrics.
	name() string
	// call makes the operations of one request, each atomically, in one round trip. A key
	// occurs once in a request.
	call(ctx context.Context, r *request) (*reply, error)
	// mark reads the mark, and replaces it if the one that is stored equals Old.
	mark(ctx context.Context, r *markRequest) (*markReply, error)
	// scan returns some keys that have a row. Each row that is there from the first call
	// of a walk to the last one is returned at least once.
	scan(ctx context.Context, r *scanRequest) (*scanReply, error)
}

// ballot orders the proposals for a key: by t, and then by id. Both are below 2^53, so a
// number of Lua holds them. The zero ballot is below all others: no proposal.
type ballot struct {
	t  int64 // microseconds of the quorum's clock, at least one above any ballot seen
	id int64 // random for each process, at least 1
}

// maxID is the greatest id. A process never draws it: it makes the ballot of a floor greater
// than any proposal of the same microsecond.
const maxID = 1<<53 - 1

// maxClass is the greatest class. Its states may live for any time.
const maxClass = 63

// part is the states of one class, as one proposal wrote them.
//
// Class c has the states that live for at most 2^c seconds. A proposal writes all classes up
// to one of its own. Its part of that class is always there, maybe empty; its parts of
// lower classes are there only if they have data. A class without a part thus has the ballot
// of the part of the next higher class that is there, and no data; a class above all
// parts has the zero ballot.
type part struct {
	class   uint8
	ballot  ballot
	expires int64 // the time from which the part is as if never written
	data    []byte
}

// row is what a server keeps for a key: its promise, and its parts by ascending class.
//
// A server expires a row at the latest expires of its parts plus the slack, and not before
// promise.t plus the slack. A key without a row has no parts, and the promise
// {max(birth + slack, time - slack), maxID}, which is called the floor. The promise of a
// row is its own, even if it is below the floor.
type row struct {
	promise ballot
	parts   []part
}

// head is the part of a request that concerns the server as a whole. The server checks it
// before it does anything.
type head struct {
	members     uint64        // hash of the list of members
	incarnation int64         // the one that the mark must have; 0: any
	last        int64         // a server whose time is later does nothing; 0: any time
	slack       time.Duration // of floors and of expiries; whole microseconds
}

// status is the answer of a server to a head. The checks are made in this order.
type status uint8

const (
	statusOK               status = iota
	statusUnborn                  // there is no mark, or its run is not that of this process
	statusOtherMembers            // the mark has another list of members
	statusOtherIncarnation        // the mark has another incarnation
	statusLate                    // the time is after last
)

// verb is what an operation does.
type verb uint8

const (
	// verbRead returns the row.
	verbRead verb = iota
	// verbPrepare sets the promise to the ballot if that is greater than the promise (of the
	// row or the floor), and returns the row with its promise before. It is refused, and
	// returns the row, otherwise. It creates a row where there is none.
	verbPrepare
	// verbPrepareNew is verbPrepare if the row has no parts, and verbRead otherwise.
	verbPrepareNew
	// verbAccept replaces the parts of all classes up to upTo by parts if the ballot is not
	// below the promise (of the row or the floor), and sets the promise to next, or to the
	// ballot if next is zero. It returns no row. It is refused otherwise, and returns a row
	// with the promise and without parts.
	verbAccept
)

// operation is one operation on one key.
type operation struct {
	verb   verb
	key    string
	ballot ballot

	// The rest is of verbAccept.
	next  ballot // above ballot, or zero
	upTo  uint8
	parts []part // by ascending class, the last one of class upTo; all of ballot
}

// request is operations for one server.
type request struct {
	head head
	ops  []operation
	wire *wire // nil, or that of all requests with these operations to servers of one store
}

// about is what each reply tells of the server. The incarnation, birth and ever are those of
// the mark; they are zero after statusUnborn.
type about struct {
	status      status
	time        int64
	incarnation int64
	birth       int64
	ever        bool
}

// reply answers a request. The results are those of the operations, in their order; there
// are none unless the status is statusOK.
type reply struct {
	about   about
	results []result
}

// result is the result of an operation.
type result struct {
	refused bool
	row     row
	// err is of one key, such as that its row cannot be read or has another type. The other
	// operations are not affected, and this one did nothing.
	err error
}

// mark is what makes a server a member. The zero mark is none.
type mark struct {
	incarnation int64  // random, 1 to 2^53-1; another one after each birth
	run         string // run_id of the process that was marked, or its disownedRun
	members     uint64 // hash of the list of members
	birth       int64  // by the quorum's clock
	// ever says that the server has seen all that was ever accepted: it is old enough for
	// every class.
	ever bool
}

// disownedRun returns the run of a mark that was taken from a process. It is that of no process, so
// the server is unborn.
func disownedRun(run string) string { return "-" + run }

// markRequest replaces old by new. A server does nothing if the mark that is stored is not
// old, if new.run is neither the run_id of its process nor its disownedRun, or if its time is after
// last. The zero value only reads.
//
// A request without an answer may arrive much later. Without last, it could find a server that
// was marked, used and emptied meanwhile, and mark it as born before that.
type markRequest struct {
	old, new mark
	last     int64 // 0: any time
	search   bool  // say whether a server without a mark is empty, which takes further round trips
}

// markReply is the answer to a markRequest.
type markReply struct {
	set   bool
	mark  mark   // that is stored now
	run   string // of this process
	time  int64
	empty bool // it was searched, and the server has no row of any key; it may be false for other data too
	// unsearched says that it has too many keys to find out whether it has a row.
	unsearched bool
	// unfit says why the server must not be a member, such as a policy that evicts or a
	// version that is too old. It is nil if it may.
	unfit error
}

// scanRequest asks for the next keys of a walk. The cursor of the first one is empty.
type scanRequest struct {
	head   head
	cursor string
	count  int // about how many keys
}

// scanReply is the answer to a scanRequest. next is empty at the end of the walk.
type scanReply struct {
	about about
	keys  []string
	next  string
}
