//go:build !unix

package redistest

import "errors"

func freeze(int) error { return errors.ErrUnsupported }

func thaw(int) error { return errors.ErrUnsupported }
