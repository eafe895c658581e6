package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// fileStore is a stint.Store for one process. It saves the files of a group one after
// another, so a crash can lose a part of a group; a database saves them in a transaction.
type fileStore struct {
	mu    sync.Mutex
	dir   string
	clock func() time.Time
}

func (s *fileStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, s, c)
}

func (s *fileStore) TakeGroups(_ context.Context, groups []stint.Group, out []stint.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := map[string][]byte{}
	for _, key := range storekit.Keys(groups) {
		value, err := os.ReadFile(s.path(key))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(err)
		}
		values[key] = value
	}
	changes, decided := storekit.Decide(groups, values, s.clock(), out)
	for _, c := range changes {
		if err := s.save(c); err != nil {
			return failed(err)
		}
	}
	return decided
}

func (s *fileStore) save(c storekit.Change) error {
	if c.Value != nil {
		return os.WriteFile(s.path(c.Key), c.Value, 0o600)
	}
	err := os.Remove(s.path(c.Key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// path hashes the key, because keys may be longer than names of files.
func (s *fileStore) path(key string) string {
	hash := sha256.Sum256([]byte(key))
	return filepath.Join(s.dir, hex.EncodeToString(hash[:]))
}

func failed(err error) error {
	return &stint.Error{Code: stint.CodeUnavailable, Problem: "a file of the store failed", Mend: "see the cause", Err: err}
}
