package envoyrls

// Counter counts. Those of Prometheus do.
type Counter interface{ Inc() }

// Counters count what one limit decided: requests that it was charged for,
// those that it denied, those that it would have denied were it not in shadow
// or quota mode, and those that it denied because the store failed.
type Counters struct{ Allow, Deny, ShadowDeny, Failed Counter }

type noCounter struct{}

func (noCounter) Inc() {}

func noCounters(string) Counters {
	return Counters{noCounter{}, noCounter{}, noCounter{}, noCounter{}}
}
