package redisstore

import "github.com/stintdev/stint"

// verifier repeats the steps of a batch in Go, on the states that the script found. It
// decides groups as the memory store does.
type verifier struct {
	batch    *batch
	answers  answers
	admitted bool // the nearest earlier leader was admitted
	allowed  int  // callers whose claims were charged
}

func (v *verifier) group(g *lineGroup, out []stint.Decision) error {
	lines := v.batch.lines[g.first : g.first+g.lines]
	charge := g.flags&dryGroup == 0 && (g.flags&following == 0 || v.admitted)
	err := v.fault(lines)
	if len(v.answers.refused) > 0 && v.batch.boundedGroup(g) && v.wasRefused(v.batch.parts(g)) {
		err = v.batch.encoding.callers.Refuse()
	}
	admitted := false
	switch {
	case err != nil:
		v.skipLogs(lines)
	case len(lines) == 1:
		v.single(&lines[0], !charge, out)
		admitted = out[0].Allowed
	default:
		admitted = v.several(lines, charge, out)
	}
	if g.flags&(dryGroup|following) == 0 {
		v.admitted = admitted
	}
	return err
}

// fault returns the first error of the lines' keys. It ignores claims that forget
// their key, because a key without a valid state can be forgotten.
func (v *verifier) fault(lines []line) error {
	for i := range lines {
		if err := v.batch.faults[lines[i].key]; err != nil && lines[i].claim.Cost != stint.Forget {
			return err
		}
	}
	return nil
}

// wasRefused reports whether the script refused a group, which the script got as a
// number of parts. All parts found the same state, so the first one tells.
func (v *verifier) wasRefused(parts int) bool {
	refused := v.answers.refused[0] == 1
	v.answers.refused = v.answers.refused[parts:]
	return refused
}

// single decides the callers of one line in order.
func (v *verifier) single(l *line, dry bool, out []stint.Decision) {
	for i := range out {
		v.step(l, dry, &out[i])
		if out[i].Allowed && !dry {
			v.count(l, &out[i])
		}
	}
}

// several decides several lines, first without charging.
func (v *verifier) several(lines []line, charge bool, out []stint.Decision) bool {
	claims := v.batch.claims[:0]
	logs := v.answers.logs
	for i := range lines {
		claims = append(claims, *lines[i].claim)
		v.step(&lines[i], true, &out[i])
	}
	v.batch.claims = claims
	_, combined := stint.Combine(claims, out)
	if !combined.Allowed || !charge {
		return combined.Allowed
	}
	v.answers.logs = logs // the reply has one entry per claim, read by both passes
	for i := range lines {
		v.charge(&lines[i], &out[i])
	}
	return true
}

// charge charges a line of a group that was admitted, if it was allowed.
func (v *verifier) charge(l *line, d *stint.Decision) {
	dry := !d.Allowed // a denied alternative of a set
	v.step(l, dry, d)
	if !dry {
		v.count(l, d)
	}
}

// count counts a charged caller as the script does. A caller with cost 0 that requests
// extra units, and is granted no unit, is not charged.
func (v *verifier) count(l *line, d *stint.Decision) {
	if l.claim.Cost != 0 || l.claim.Extra == 0 || d.Granted > 0 {
		v.allowed++
	}
}

// step takes the step of one caller.
func (v *verifier) step(l *line, dry bool, d *stint.Decision) {
	if !dry && l.claim.Cost == stint.Forget {
		v.batch.faults[l.key] = nil
	}
	if l.limit.kind == logKind {
		*d = v.reportLog(l)
		return
	}
	*d = l.limit.limit.Step(&v.batch.states[l.key], v.answers.now, l.claim, dry)
}
