package emergency

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// kept is the content of the file.
type kept struct {
	Shared State `json:"shared"`
	Own    State `json:"own"`
}

// load takes over the state of an earlier process. A file that cannot be read is reported
// and ignored: the server must start.
func (s *Switch) load() {
	if s.File == "" {
		return
	}
	data, err := os.ReadFile(s.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	for _, state := range []*State{&k.Shared, &k.Own} {
		if err == nil && state.Revision != "" {
			err = state.check()
		}
	}
	if err != nil {
		s.Logger.Warn("emergency: the state of an earlier run cannot be read, so it is not in force (switch it on again if it is needed)", "file", s.File, "error", err)
		return
	}
	most := time.Now().Add(MaxDuration)
	for _, state := range []*State{&k.Shared, &k.Own} {
		if state.Ends.After(most) { // the clock was set back, or the file was changed
			state.Ends = most
		}
	}
	s.shared, s.own = k.Shared, k.Own
}

// keepLocked keeps the state for the next process.
func (s *Switch) keepLocked() {
	if s.File == "" || s.shared.Revision == "" && s.own.Revision == "" {
		return
	}
	data, err := json.Marshal(kept{s.shared, s.own})
	if err == nil {
		err = replace(s.File, data)
	}
	if err != nil {
		s.Logger.Warn("emergency: the state cannot be kept, so a restart of this node forgets it (set --state-dir to a writable folder)", "error", err)
	}
}

// replace replaces a file in one step.
func replace(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".emergency-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
