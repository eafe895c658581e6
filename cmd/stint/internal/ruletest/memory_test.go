package ruletest_test

import (
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/ruletest"
)

func TestMemoryIsASource(t *testing.T) {
	ruletest.Source(t, func(*testing.T) ruleset.Source { return &ruleset.Memory{} })
}
