package remotetest

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storetest"
)

func TestContractOverTheWire(t *testing.T) {
	storetest.Suite{Runs: 30, Steps: 20, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		return remote(t, clock)
	}}.Run(t)
}
