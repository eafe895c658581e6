package quorumstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// KindYoung is the kind of error of a claim that too few servers are old enough for.
const KindYoung stint.Kind = "young"

func nothingSent(err error) bool { return stint.CodeOf(err) == stint.CodeUnavailable }

// noMajority returns the error of a read that no majority answered. Nothing was written.
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
	return &stint.Error{Code: stint.CodeUnavailable, Kind: "quorum", Err: ctx.Err(),
		Problem: fmt.Sprintf("no majority of the %d servers answers with clocks that agree (%s)", len(b.members), strings.Join(why, "; ")),
		Mend:    "start the servers that are down, and keep their clocks in step"}
}

// noAnswer returns the error of a round that no majority promised. Nothing was written.
func (b *backend) noAnswer(ctx context.Context) error {
	return &stint.Error{Code: stint.CodeUnavailable, Kind: "quorum", Err: ctx.Err(),
		Problem: fmt.Sprintf("no majority of the %d servers answered in time: nothing was charged", len(b.members)),
		Mend:    "start the servers that are down, and see whether the network is overloaded"}
}

// unanswered returns the error of a write that too few servers answered.
func (b *backend) unanswered(ctx context.Context) error {
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
