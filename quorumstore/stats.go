package quorumstore

import "github.com/stintdev/stint/storekit"

// ServerStats is the state of one server, as this process saw it last.
type ServerStats struct {
	Server string // its address
	Up     bool   // it answered the last call
	// Whole says that it has all counts. A server that lost its data, or was started again,
	// does not until it is repaired: meanwhile, it counts only for limits that forget faster
	// than it is old.
	Whole bool
}

// serverStats returns the states of the members.
func (b *backend) serverStats() (all []ServerStats) {
	for _, m := range b.members {
		m.mu.Lock()
		heard, ever := m.mu.heard, m.mu.about.ever
		m.mu.Unlock()
		all = append(all, ServerStats{Server: m.name(), Up: heard && !m.silent.Load(), Whole: heard && ever})
	}
	return all
}

// Metrics implements [storekit.Metered].
func (b *backend) Metrics() []storekit.Metric {
	up := storekit.Metric{Name: "store_server_up", Label: "server", Help: "1 while a server of a quorum answers."}
	whole := storekit.Metric{Name: "store_server_whole", Label: "server", Help: "1 while a server of a quorum has all counts; 0 after it lost its data, or was started again, until it is repaired."}
	for _, s := range b.serverStats() {
		up.Samples = append(up.Samples, storekit.Sample{Label: s.Server, Value: oneIf(s.Up)})
		whole.Samples = append(whole.Samples, storekit.Sample{Label: s.Server, Value: oneIf(s.Whole)})
	}
	return []storekit.Metric{up, whole}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
