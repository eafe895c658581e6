// Package check has what the constructors of the resilience packages share to check their
// options.
package check

import "fmt"

// Unless returns nil if right is true, and an error with the text of the format if not.
func Unless(right bool, format string, args ...any) error {
	if right {
		return nil
	}
	return fmt.Errorf(format, args...)
}
