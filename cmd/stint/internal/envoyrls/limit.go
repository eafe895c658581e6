package envoyrls

import (
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stintdev/stint"
)

// limit is the rate_limit of a descriptor, or the override that a request has in its
// place.
type limit struct {
	path      string           // "domain.key_value.key", as Envoy's service names it
	name      string           // may be empty
	replaces  []string         // names of limits that this one replaces in a request
	unlimited bool             // if true, it is the only one of its descriptor
	shadow    bool             // shadow_mode: counted, never denied
	quota     bool             // quota_mode: denies only when all quota-mode descriptors of the request are over
	metadata  *structpb.Struct // sent to Envoy while the limit allows; may be nil

	counted  stint.Limit
	kind     string // the same for limits that share the state of a key
	window   time.Duration
	banned   bool        // limit 0: counted allows 1, so claims ask for 2
	all      stint.Limit // for CountAll: a fixed window that counts past every limit; else not valid
	info     *limitInfo  // shared by all answers, never changed
	counters Counters
}

// numbers is the configuration of a limit's count.
type numbers struct {
	requests  uint32
	window    time.Duration
	algorithm stint.Algorithm
	burst     int64 // 0: the algorithm's own
	brought   bool  // in a request, not in a file
}

// namespace separates these counters from those of rules and of /v1/take.
const namespace = "envoy"

// compile returns the limit that counts. Its name has only the algorithm and the
// window. So, as in Envoy's service, a key keeps its count when the configuration
// moves it from one descriptor to another.
func (n numbers) compile() (counted stint.Limit, banned bool, err error) {
	requests := min(int64(n.requests), stint.MaxLimit)
	if banned = requests == 0; banned {
		n, requests = numbers{window: n.window, algorithm: stint.FixedWindow, brought: n.brought}, 1
	}
	spec := stint.Spec{Namespace: namespace, Algorithm: n.algorithm, Limit: requests, Window: n.window, Capacity: n.burst, FromCaller: n.brought}
	counted, err = spec.Compile()
	return counted, banned, err
}

// count sets the limit to count by n.
func (l *limit) count(n numbers) (err error) {
	l.window, l.info = n.window, describe(l.name, n.requests, n.window)
	if l.counted, l.banned, err = n.compile(); err != nil {
		return err
	}
	l.kind = l.counted.Name() + " " + l.counted.Shape()
	if n.brought {
		l.kind += " brought"
	}
	if l.counted.Algorithm() == stint.FixedWindow {
		l.all, err = endless(n.window, n.brought)
	}
	return err
}

// endless returns a fixed window that counts past every limit.
func endless(window time.Duration, brought bool) (stint.Limit, error) {
	return stint.Spec{
		Namespace: namespace, Name: "all:" + window.String(),
		Algorithm: stint.FixedWindow, Limit: stint.MaxLimit, Window: window, FromCaller: brought,
	}.Compile()
}
