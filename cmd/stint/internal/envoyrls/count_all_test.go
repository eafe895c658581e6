package envoyrls

import (
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

func countAll(o *Options) { o.CountAll = true }

func TestCountingAllBurnsWhatIsDenied(t *testing.T) {
	s := serve(t, messaging, countAll)
	both := request("messaging", "to_number=1", "message_type=marketing,to_number=1")
	s.want(both, "OK | OK 2/MINUTE left 1 reset 40 | OK 5/DAY left 4 reset 6400")
	s.want(both, "OK | OK 2/MINUTE left 0 reset 40 | OK 5/DAY left 3 reset 6400")
	s.want(both, "OVER_LIMIT | OVER_LIMIT 2/MINUTE left 0 reset 40 | OK 5/DAY left 2 reset 6400")
	s.want(request("messaging", "message_type=marketing,to_number=1"), "OK | OK 5/DAY left 1 reset 6400")
}

func TestCountingAllGoesPastTheLimit(t *testing.T) {
	s := serve(t, messaging, countAll)
	r := request("messaging", "message_type=marketing,to_number=1")
	for _, step := range []struct {
		hits uint32
		back bool
		want string
	}{
		{3, false, "OK | OK 5/DAY left 2 reset 6400"},
		{3, false, "OVER_LIMIT | OVER_LIMIT 5/DAY left 0 reset 6400"}, // the counter is at 6
		{1, true, "OK | OK 5/DAY left 0 reset 6400"},
		{2, true, "OK | OK 5/DAY left 2 reset 6400"},
		{4_000_000_000, false, "OVER_LIMIT | OVER_LIMIT 5/DAY left 0 reset 6400"},
		{0, false, "OVER_LIMIT | OVER_LIMIT 5/DAY left 0 reset 6400"},
	} {
		r.HitsAddend, r.Descriptors[0].IsNegativeHits = step.hits, step.back
		s.want(r, step.want)
	}
}

func TestCountingAllPeeksAtWhatWasCounted(t *testing.T) {
	s := serve(t, messaging, countAll)
	peek := request("messaging", "to_number=1")
	peek.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	s.want(request("messaging", "to_number=1", "to_number=1"), "OK | OK 2/MINUTE left 1 reset 40 | OK 2/MINUTE left 0 reset 40")
	s.want(peek, "OK | OK 2/MINUTE left 0 reset 40")
	s.want(request("messaging", "to_number=1"), "OVER_LIMIT | OVER_LIMIT 2/MINUTE left 0 reset 40")
	s.want(peek, "OVER_LIMIT | OVER_LIMIT 2/MINUTE left 0 reset 40")
	s.want(request("messaging", "banned=1"), "OVER_LIMIT | OVER_LIMIT 0/SECOND left 0 reset 1")
}

func TestShadowOfEverythingIsOKAndTellsTheTruth(t *testing.T) {
	s := serve(t, messaging, func(o *Options) { o.Shadow = true })
	s.want(request("messaging", "banned=1"), "OK | OVER_LIMIT 0/SECOND left 0 reset 1")
}
