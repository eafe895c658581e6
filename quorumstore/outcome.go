package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// KindYoung is the kind of error of a claim that too few servers are old enough for.
const KindYoung stint.Kind = "young"

const (
	// kindQuorum is the kind of error of a quorum as a whole.
	kindQuorum = stint.Kind("quorum")
	// kindMembers is the kind of error of a process that has another list of members than the
	// servers.
	kindMembers = stint.Kind("members")
	mendMembers = "name the servers of the last stint store replace in the store's URL"
)

func nothingSent(err error) bool { return stint.CodeOf(err) == stint.CodeUnavailable }

// noMajority returns the error of a read that no majority answered. Nothing was written. If
// all servers that failed refuse for one reason, it has the kind and the mend of that.
func (b *backend) noMajority(ctx context.Context, e *exchange) error {
	var why []string
	for _, a := range e.answers {
		switch {
		case a.err != nil:
			why = append(why, a.err.Error())
		case a.reply.about.status != statusOK:
			why = append(why, a.member.name()+" "+a.reply.about.status.String())
		default:
			why = append(why, a.member.name()+" answers")
		}
	}
	kind, mend := e.commonReason()
	return &stint.Error{Code: stint.CodeUnavailable, Kind: kind, Err: ctx.Err(),
		Problem: fmt.Sprintf("no majority of the %d servers answers with clocks that agree (%s)", len(b.members), strings.Join(why, "; ")),
		Mend:    mend}
}

// commonReason returns the kind and the mend of the answers that failed, if all of them are
// refusals of one kind. Otherwise the quorum as a whole is the reason.
func (e *exchange) commonReason() (kind stint.Kind, mend string) {
	failed := 0
	for _, a := range e.answers {
		var k stint.Kind
		var m string
		switch known, ok := errors.AsType[*stint.Error](a.err); {
		case ok && known.Code == stint.CodeUnavailable && known.Kind != "connection":
			k, m = known.Kind, known.Mend
		case a.err == nil && a.reply.about.status == statusOtherMembers:
			k, m = kindMembers, mendMembers
		case a.err == nil && a.reply.about.status == statusOK:
			continue
		}
		if failed++; k == "" || failed > 1 && k != kind {
			return quorumReason()
		}
		kind, mend = k, m
	}
	if failed < e.asked-e.backend.majority+1 {
		return quorumReason() // the others did not answer, or their clocks are off
	}
	return kind, mend
}

func quorumReason() (kind stint.Kind, mend string) {
	return kindQuorum, "start the servers that are down, and keep their clocks in step"
}

// noAnswer returns the error of a round that no majority promised. Nothing was written.
func (b *backend) noAnswer(ctx context.Context) error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: kindQuorum, Err: ctx.Err(),
		Problem: fmt.Sprintf("no majority of the %d servers answered in time: nothing was charged", len(b.members)),
		Mend:    "start the servers that are down, and see whether the network is overloaded"}
}

// unanswered returns the error of a write that some servers have made, or may have, and too few.
// wrong is the reason of those that could not, or nil.
func (b *backend) unanswered(ctx context.Context, wrong error) error {
	if known, ok := errors.AsType[*stint.Error](wrong); ok {
		return &stint.Error{Code: stint.CodeTimeout, Kind: known.Kind, Problem: "too few servers could make the write: whether it was charged is unknown", Mend: known.Mend, Err: known}
	}
	return cas.NoAnswer(ctx, "a majority of the servers", context.Cause(ctx))
}

// tooYoung returns the error of a claim of a class that too few servers are old enough for.
func (b *backend) tooYoung(usable []*answer, class int) error {
	e := &stint.Error{Code: stint.CodeUnavailable, Kind: KindYoung,
		Problem: "too few servers have been members for long enough to know all charges that the limit still counts",
		Mend:    "run stint store repair, or wait until they are old enough"}
	var waits []time.Duration
	for _, a := range usable {
		wait := a.reply.about.matures(class, b.slack)
		if a.reply.about.ever {
			wait = 0
		}
		waits = append(waits, wait)
	}
	if len(waits) >= b.majority {
		slices.Sort(waits)
		if wait := waits[b.majority-1]; wait < 1<<62 {
			e.Mend = fmt.Sprintf("run stint store repair, or wait for %s", wait.Round(time.Second))
		}
	}
	return e
}

func (s status) String() string {
	switch s {
	case statusUnborn:
		return "has restarted and is not yet a member again"
	case statusOtherMembers:
		return "has another list of members (see stint store replace)"
	case statusOtherIncarnation:
		return "has restarted since it was read"
	case statusLate:
		return "got the request too late"
	}
	return "answers"
}
