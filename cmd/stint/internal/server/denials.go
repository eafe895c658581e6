package server

import (
	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/denials"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

// newRecentDenials returns an empty list of the last denials of all surfaces.
func newRecentDenials(key decisionlog.Key) *denials.Recent {
	names := make([]string, metrics.Surfaces)
	for i := range names {
		names[i] = metrics.Surface(i).String()
	}
	return denials.New(denials.Options{Key: key, Surfaces: names})
}

// denied returns what keeps the denials of takes on a surface; nil if no denials are kept.
func (s *Server) denied(on metrics.Surface) func(*stint.Claim, stint.Decision) {
	if s.denials == nil {
		return nil
	}
	return func(c *stint.Claim, d stint.Decision) { s.denials.RecordTake(uint8(on), c, &d) }
}
