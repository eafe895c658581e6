package envoyrls

// Counter is a metric that counts. The counters of Prometheus implement it.
type Counter interface{ Inc() }

// Counters count the outcomes of one limit: requests that it charged (Allow), requests
// that it denied (Deny), requests that it would have denied if it were not in shadow
// or quota mode (ShadowDeny), and requests denied because the store failed (Failed).
type Counters struct{ Allow, Deny, ShadowDeny, Failed Counter }

type noCounter struct{}

func (noCounter) Inc() {}

func noCounters(string) Counters {
	return Counters{noCounter{}, noCounter{}, noCounter{}, noCounter{}}
}
