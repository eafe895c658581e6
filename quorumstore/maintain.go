package quorumstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// keeper marks members that have none and repairs those that have lost their data, in the
// background. Each process of a quorum has one; that several do the same at once costs
// time, and nothing else.
type keeper struct {
	backend *backend
	log     *slog.Logger
	why     map[*member]string // why a member could not be repaired, as last logged
}

// The time between two looks at the members: shorter while one of them lacks counts. A
// process that has just started looks at once, and founds a new quorum.
const (
	lookEvery      = 5 * time.Second
	lookEveryYoung = time.Second
)

func (k *keeper) run(ctx context.Context) {
	for {
		every := lookEvery
		if !k.look(ctx) {
			every = lookEveryYoung
		}
		t := time.NewTimer(every/2 + rand.N(every)) // the processes take turns
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// repairTime bounds the repair of a member.
const repairTime = 10 * time.Minute

// look looks at all members once. It reports whether all that answer have all counts.
func (k *keeper) look(ctx context.Context) (whole bool) {
	if err := k.backend.tend(ctx); err != nil && ctx.Err() == nil {
		k.log.Debug("the marks of the servers of the quorum could not all be set", "error", err)
	}
	marks, _ := k.backend.marks(ctx) // those that answer
	whole = true
	for i, re := range marks {
		m := k.backend.members[i]
		if re == nil || re.incarnation() == 0 || re.mark.ever {
			delete(k.why, m)
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, repairTime)
		err := k.backend.repair(bounded, m)
		cancel()
		k.report(ctx, m, err)
		whole = whole && err == nil
	}
	return whole
}

// report logs what became of a repair. A reason that lasts is logged once.
func (k *keeper) report(ctx context.Context, m *member, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, errMarked): // another process was first
	case err == nil:
		delete(k.why, m)
		k.log.Info("a server of the quorum that was started again is repaired: it has all counts", "server", m.name())
	case k.why[m] == "":
		k.why[m] = err.Error()
		k.log.Warn("a server of the quorum that was started again is not repaired yet: until then, it counts only for limits that forget faster than it is old", "server", m.name(), "error", err)
	}
}
