package replay

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// ruleJudge decides every event by rules, one of which has another limit.
type ruleJudge struct {
	settler

	value          int64
	denied, byRule int64
	callers        *keySet // that were denied
}

// variedStore is a memory store in which claims have other limits.
type variedStore struct {
	*stint.Memory

	limits limitCopies
}

// TakeGroups implements [stint.Store].
func (s *variedStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	return s.Memory.TakeGroups(ctx, storekit.MapClaims(groups, func(c *stint.Claim) { c.Limit = s.limits.of(c.Limit) }), out)
}

// SweepRule decides the events by the rules of the options several times in one pass over the
// inputs. Each time, another limit replaces the limit from, which is of one of the rules; all rules
// have counters of their own. The rules are matched only once for an event.
func SweepRule(ctx context.Context, options Options, of *rule.Rule, from stint.Limit, limits []Swept, inputs ...Input) (SweepReport, error) {
	if len(limits) == 0 || len(limits) > MostSwept {
		return SweepReport{}, fmt.Errorf("sweep: %d limits are out of range (use 1 to %d)", len(limits), MostSwept)
	}
	event := plannedEvent{}
	clock := func() time.Time { return time.UnixMicro(event.t) }
	judges := make([]ruleJudge, len(limits))
	for i := range judges {
		judges[i] = ruleJudge{value: limits[i].Value, callers: newKeySet()}
		judges[i].store.Store = &variedStore{memoryStore(clock), limitCopies{from: limits[i].Limit}}
	}
	h := hasher{maphash.MakeSeed()}
	planner := rulesDecider{set: options.Rules, lines: lineReader{format: options.Format}}
	reading, err := readComplete(ctx, &options, func(r *reader, callers *keySet, p *pending) (bool, error) {
		if err := planner.plan(&planner.lines, p, &event); err != nil {
			return false, err
		}
		defer event.plan.Release()
		for i := range judges {
			if err := judges[i].decide(ctx, &event, of, h); invalid(err) {
				r.bad(p, err) // the rules refuse the event, whatever the limit
				return false, nil
			} else if err != nil {
				return false, fmt.Errorf("no decision: %w", err)
			}
		}
		callers.addHash(h.of(callerOf(&event.event, judges[0].outcome.Hits)))
		return true, nil
	}, inputs)
	report := SweepReport{Reading: reading, Rule: of.ID}
	for i := range judges {
		one := judge{Swept: Swept{Value: judges[i].value}, denied: judges[i].denied, keys: judges[i].callers}
		value := one.result(&reading)
		value.DeniedByRule = judges[i].byRule
		report.Values = append(report.Values, value)
	}
	return report, err
}

func (j *ruleJudge) decide(ctx context.Context, e *plannedEvent, of *rule.Rule, h hasher) error {
	if err := j.settle(ctx, e); err != nil {
		return err
	}
	if !j.outcome.Allowed() {
		j.denied++
		j.callers.addHash(h.of(callerOf(&e.event, j.outcome.Hits)))
	}
	for hits := range byRule(j.outcome.Hits) {
		if hits[0].Rule == of && denies(hits) {
			j.byRule++
		}
	}
	return nil
}
