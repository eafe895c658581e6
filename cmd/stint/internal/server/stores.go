package server

import (
	"strings"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

// defaultStore describes the default store.
func (s *Server) defaultStore() metrics.StoreReader {
	return metrics.StoreReader{Calls: s.calls, Shared: s.config.Shared, Stats: s.config.Stats, MaxKeys: s.config.MaxKeys}
}

// allStores describes the default store and then those that rules name.
func (s *Server) allStores() []metrics.StoreReader {
	return append([]metrics.StoreReader{s.defaultStore()}, s.config.Stores...)
}

// lastStoreError returns the kind of the last error of a failing store, and "" before the
// first.
func (s *Server) lastStoreError() string {
	kind, _ := s.lastStoreFailure()
	return kind
}

// lastStoreFailure returns the kind and the time of the last error of a failing store, with
// the name of the store if there are several.
func (s *Server) lastStoreFailure() (kind string, at time.Time) {
	for _, store := range s.allStores() {
		if k, t := store.Calls.LastFailure(); k != "" && t.After(at) {
			kind, at = k, t
			if len(s.config.Stores) > 0 {
				kind = store.Label() + ": " + k
			}
		}
	}
	return kind, at
}

// storesHealth returns one line for each store, for ready.
func (s *Server) storesHealth() (text string) {
	for _, store := range s.allStores() {
		switch {
		case len(s.config.Stores) > 0:
			text += "\nstore " + store.Label() + ": " + upOrDown(store.Up())
		case store.Shared != nil:
			text += "\nstore: " + upOrDown(store.Up())
		}
	}
	return text
}

// shardName returns the name of a server of a store, with the name of the store before it if
// there are several.
func (s *Server) shardName(store *metrics.StoreReader, shard string) string {
	if len(s.config.Stores) == 0 {
		return shard
	}
	return strings.TrimSuffix(store.Label()+" "+shard, " ")
}
