package redisstore

import (
	"errors"

	"github.com/stintdev/stint"
)

// invocation is one call of a script. On a Cluster its keys are of one slot,
// and it has at least one.
type invocation struct {
	script *script
	keys   []string
	args   []string
	// replicas is how many replicas must have what the call charged before its
	// reply counts; 0: none. The others of its flight wait with it.
	replicas uint8
	// charged, when it is not nil, is called once the server has charged
	// something, before the wait for replicas.
	charged func()
}

func (i *invocation) noteCharged() {
	if i.charged != nil {
		i.charged()
	}
}

// reply is what came of an invocation: what the script returned, or the error
// as an [*stint.Error], ready to be handed out. Of its codes CodeTimeout and
// CodeCanceled mean that the script may have run, and CodeUnavailable that it
// has not.
//
// When a call charged something and fewer replicas than asked for answered in
// time there is data and no error: acked says how many did, and
// [replicasMissing] is the error.
type reply struct {
	data  string
	acked int
	err   error
}

// mayHaveRun reports whether a script may have run although its call failed.
func mayHaveRun(err error) bool {
	var e *stint.Error
	return !errors.As(err, &e) || e.Code == stint.CodeTimeout || e.Code == stint.CodeCanceled
}
