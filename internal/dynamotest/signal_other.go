//go:build !linux

package dynamotest

import (
	"errors"
	"syscall"
)

func diesWithParent() *syscall.SysProcAttr { return nil }

func freeze(int) error { return errors.ErrUnsupported }

func thaw(int) error { return errors.ErrUnsupported }
