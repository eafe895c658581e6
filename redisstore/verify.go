package redisstore

import "github.com/stintdev/stint"

// replay repeats the steps of a batch in Go, on the states that the script found. It
// decides groups as the memory store does.
type replay struct {
	batch    *batch
	answers  answers
	admitted bool // the nearest earlier leader was admitted
	allowed  int  // callers whose claims were charged
}

func (r *replay) group(g *lineGroup, out []stint.Decision) error {
	lines := r.batch.lines[g.first : g.first+g.lines]
	charge := g.flags&dryGroup == 0 && (g.flags&following == 0 || r.admitted)
	err := r.fault(lines)
	if len(r.answers.refused) > 0 && r.batch.boundedGroup(g) && r.wasRefused(r.batch.parts(g)) {
		err = r.batch.encoding.callers.refuse()
	}
	admitted := false
	switch {
	case err != nil:
		r.skipLogs(lines)
	case len(lines) == 1:
		r.alone(&lines[0], !charge, out)
		admitted = out[0].Allowed
	default:
		admitted = r.together(lines, charge, out)
	}
	if g.flags&(dryGroup|following) == 0 {
		r.admitted = admitted
	}
	return err
}

// fault returns the first error of the lines' keys. It ignores claims that forget
// their key, because a key without a valid state can be forgotten.
func (r *replay) fault(lines []line) error {
	for i := range lines {
		if err := r.batch.faults[lines[i].key]; err != nil && lines[i].claim.Cost != stint.Forget {
			return err
		}
	}
	return nil
}

// wasRefused reports whether the script refused a group, which the script got as a
// number of parts. All parts found the same state, so the first one tells.
func (r *replay) wasRefused(parts int) bool {
	refused := r.answers.refused[0] == 1
	r.answers.refused = r.answers.refused[parts:]
	return refused
}

// alone decides the callers of one line in order.
func (r *replay) alone(l *line, dry bool, out []stint.Decision) {
	for i := range out {
		r.step(l, dry, &out[i])
		if out[i].Allowed && !dry {
			r.count(l, &out[i])
		}
	}
}

// together decides several lines, first without charging.
func (r *replay) together(lines []line, charge bool, out []stint.Decision) bool {
	claims := r.batch.claims[:0]
	logs := r.answers.logs
	for i := range lines {
		claims = append(claims, *lines[i].claim)
		r.step(&lines[i], true, &out[i])
	}
	r.batch.claims = claims
	_, face := stint.Combine(claims, out)
	if !face.Allowed || !charge {
		return face.Allowed
	}
	r.answers.logs = logs // the reply has one entry per claim, read by both passes
	for i := range lines {
		r.charge(&lines[i], &out[i])
	}
	return true
}

// charge charges a line of a group that was admitted, if it was allowed.
func (r *replay) charge(l *line, d *stint.Decision) {
	dry := !d.Allowed // a denied alternative of a set
	r.step(l, dry, d)
	if !dry {
		r.count(l, d)
	}
}

// count counts a charged caller as the script does. A caller that asks only for extra
// units and gets none is not charged.
func (r *replay) count(l *line, d *stint.Decision) {
	if l.claim.Cost != 0 || l.claim.Extra == 0 || d.Granted > 0 {
		r.allowed++
	}
}

// step takes the step of one caller.
func (r *replay) step(l *line, dry bool, d *stint.Decision) {
	if !dry && l.claim.Cost == stint.Forget {
		r.batch.faults[l.key] = nil
	}
	if l.limit.kind == logKind {
		*d = r.tellLog(l)
		return
	}
	*d = l.limit.limit.Step(&r.batch.states[l.key], r.answers.now, l.claim, dry)
}
