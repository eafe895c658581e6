package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/rule"
)

// pipelineFlags let a pipeline decide by the exit status of a command that shows a change.
type pipelineFlags struct{ detailed, failOnWarning bool }

func (f *pipelineFlags) define(c *cobra.Command, detailed string) {
	c.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "exit with status 3 "+detailed)
	c.Flags().BoolVar(&f.failOnWarning, "fail-on-warning", false, "exit with status 1 if the rules have warnings")
}

// checkWarnings fails if there are warnings and the pipeline wants none.
func (f *pipelineFlags) checkWarnings(list rule.Problems) error {
	if f.failOnWarning && len(list) > 0 {
		return fmt.Errorf("the rules have %s (mend them, or leave out --fail-on-warning)", counted(len(list), "warning"))
	}
	return nil
}

// status adds the detailed exit status to the result of printing.
func (f *pipelineFlags) status(printed error, different bool, what string) error {
	if printed == nil && f.detailed && different {
		return differentError{errors.New(what)}
	}
	return printed
}
