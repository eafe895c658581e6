package quorumstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// maintainEvery is how often a backend looks after its members.
const maintainEvery = time.Second

// maintain marks members that have restarted, and repairs those that are young, until the
// context ends. Several processes may do so at once.
func (b *backend) maintain(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	told := make([]toldOf, len(b.members))
	for {
		b.maintainOnce(ctx)
		for i, m := range b.members {
			b.tell(m, &told[i])
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// maintainOnce looks after the marks, and repairs at most one young member. If no member is
// young, it reads the marks alone.
func (b *backend) maintainOnce(ctx context.Context) {
	if err := b.tend(ctx); err != nil {
		b.options.Logger.Debug("not all servers could be marked", "error", err)
	}
	for _, m := range b.members {
		if !m.isYoung() {
			continue
		}
		switch err := b.repair(ctx, m); {
		case err == nil:
			b.options.Logger.Info("a server that had restarted knows all charges again", "server", m.name())
			return
		case stint.CodeOf(err) != stint.CodeUnavailable:
			b.options.Logger.Warn("a server that had restarted could not be repaired (see stint store repair)", "server", m.name(), "error", err)
		default:
			b.options.Logger.Debug("a server that had restarted is not repaired yet", "server", m.name(), "error", err)
		}
	}
}

// toldOf is what the log tells of a member.
type toldOf struct {
	kind   stint.Kind // why it is not used, by the last line; empty: it is
	failed int        // rounds of maintenance in a row in which it could not be used
}

// tell logs that a member is not used, once two rounds in a row have failed, and that it is used again.
func (b *backend) tell(m *member, told *toldOf) {
	m.mu.Lock()
	heard, wrong := m.mu.heard, m.mu.wrong
	m.mu.Unlock()
	e, refused := errors.AsType[*stint.Error](wrong)
	unborn := refused && e.Kind == kindQuorum // which it stays while its clock is off
	if agree := b.agreeing(); (wrong == nil || unborn) && heard && !agree[m.index] && slices.Contains(agree[:], true) {
		wrong = b.clockIsOff(m) // not where no majority is known to agree
	}
	if wrong == nil {
		if told.failed = 0; told.kind != "" {
			told.kind = ""
			b.options.Logger.Info("a server of the quorum is used again", "server", m.name())
		}
		return
	}
	kind := stint.Kind("unknown")
	if known, ok := errors.AsType[*stint.Error](wrong); ok {
		kind = known.Kind
	}
	if told.failed++; told.failed >= 2 && told.kind != kind {
		told.kind = kind
		b.options.Logger.Warn("a server of the quorum is not used", "server", m.name(), "error", wrong)
	}
}

// refuses returns why a member that answers, with this mark, is not used. It returns nil if it is.
func (b *backend) refuses(m *member, re *markReply) error {
	e := &stint.Error{Code: stint.CodeUnavailable}
	switch incarnation := re.incarnation(); {
	case re.mark != (mark{}) && re.mark.members != b.hash:
		e.Kind, e.Problem, e.Mend = kindMembers, m.name()+" "+statusOtherMembers.String(), mendMembers
	case re.disowned(), incarnation != 0 && !m.trusts(incarnation):
		e.Kind, e.Problem, e.Mend = "clock", "the clock of "+m.name()+" ran back, or was far ahead, and it has to become a member anew", "have NTP set it, and start the servers that are down: of three, all must answer"
	case incarnation == 0:
		e.Kind, e.Problem = kindQuorum, m.name()+" is not a member yet: it has restarted, or the quorum is new"
		e.Mend = "start the servers that are down: of three, all must answer"
	default:
		return nil
	}
	return e
}

// isYoung reports whether the member has not seen all that was ever accepted.
func (m *member) isYoung() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.heard && m.mu.about.incarnation != 0 && !m.mu.about.ever
}
