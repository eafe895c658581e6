package ruleset

import (
	"context"
	"sync"
	"time"
)

// Memory is a [Source] in the memory of this process. The zero value is empty
// and ready for use. Do not copy it.
type Memory struct {
	mu       sync.Mutex
	versions []Version // guarded by mu; the oldest first
}

// String returns "memory".
func (*Memory) String() string { return "memory" }

// Watch calls changed now and every ten seconds, until ctx ends. The publisher itself puts new
// versions in force; the checks show that they are the newest.
func (*Memory) Watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		changed()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// History lists the newest versions.
func (m *Memory) History(_ context.Context, n int) ([]Version, error) { return m.list(n), nil }

// Get returns a version with its files.
func (m *Memory) Get(_ context.Context, number uint64) (Version, error) { return m.get(number) }

// Publish adds a version.
func (m *Memory) Publish(_ context.Context, after uint64, v Version) (Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if newest := m.newestLocked(); newest.Number != after {
		return Version{}, &ConflictError{newest.listed()}
	}
	m.addLocked(v)
	return v, nil
}

func (m *Memory) list(n int) (all []Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.versions) - 1; i >= 0 && len(all) < n; i-- {
		all = append(all, m.versions[i].listed())
	}
	return all
}

func (m *Memory) get(number uint64) (Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.versions {
		if v.Number == number && v.Files != nil {
			return v, nil
		}
	}
	return Version{}, ErrNone
}

func (m *Memory) newest() Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newestLocked()
}

func (m *Memory) newestLocked() Version {
	if len(m.versions) == 0 {
		return Version{}
	}
	return m.versions[len(m.versions)-1]
}

func (m *Memory) add(v Version) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newestLocked().Number >= v.Number {
		return errTaken
	}
	m.addLocked(v)
	return nil
}

func (m *Memory) addLocked(v Version) {
	m.versions = append(m.versions, v)
	if len(m.versions) > listedOnDisk {
		m.versions = m.versions[1:]
	}
	if old := len(m.versions) - 1 - wholeInMemory; old >= 0 {
		m.versions[old] = m.versions[old].listed()
	}
}

func (m *Memory) remove(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newestLocked().Number == number && number > 0 {
		m.versions = m.versions[:len(m.versions)-1]
	}
}
