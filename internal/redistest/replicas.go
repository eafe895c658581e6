package redistest

import (
	"fmt"
	"strconv"
)

// AwaitReplicas waits until n replicas have everything that this master has written so
// far.
func (p *Process) AwaitReplicas(n int) {
	p.t.Helper()
	want := strconv.Itoa(n)
	Await(p.t, func() error {
		// WAIT covers what the master had written when the previous command of the
		// connection ran.
		have, err := p.converse([]string{"PING"}, []string{"WAIT", want, "1000"})
		if err == nil && have != want {
			return fmt.Errorf("%s of %d replicas of %s are in step", have, n, p.Addr())
		}
		return err
	})
}
