package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stintdev/stint/bench/simulate"
)

// sheets returns the pictures of resilience.md by their file names.
func sheets() map[string]func() (*sheet, error) {
	return map[string]func() (*sheet, error){"incident.svg": incident, "overload.svg": overload}
}

// write draws every sheet into a folder.
func write(folder string) error {
	for name, draw := range sheets() {
		s, err := draw()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(s.svg()), 0o644); err != nil { //nolint:gosec // everyone may read the file
			return err
		}
	}
	return nil
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// incident draws the load of a thousand clients on a failing server.
func incident() (*sheet, error) {
	s := &sheet{
		title:   "Requests a second to a server that fails from second 20 to 50, by how its 1,000 clients retry",
		legend:  "Dashed: without retries. Load: attempts for each request while it fails. Wave: the busiest second after that, against the mean.",
		seconds: seconds(simulate.Ends),
	}
	for _, advice := range simulate.Advices() {
		var row []panel
		for _, scene := range simulate.Scenes() {
			i, err := simulate.Play(scene.With(advice), simulate.Seed)
			if err != nil {
				return nil, err
			}
			row = append(row, incidentPanel(scene.Name, i))
		}
		s.names, s.rows = append(s.names, advice.Name), append(s.rows, row)
	}
	return s, nil
}

func incidentPanel(name string, i *simulate.Incident) panel {
	peak, mean := i.Wave()
	return panel{
		title: name,
		note:  fmt.Sprintf("load %.2f, wave %.2f", i.Amplification(), float64(peak)/mean),
		front: i.PerSecond(), top: 10_000, level: simulate.Clients,
		from: seconds(simulate.Fails), to: seconds(simulate.Recovers),
	}
}

// overload draws a server that receives three times as many requests as it can answer.
func overload() (*sheet, error) {
	s := &sheet{
		title:   "A server that can answer 400 requests a second is asked 1,200 from second 15 to 45",
		legend:  "Blue: answers within a second. Grey: requests. Dashed: what it can answer.",
		seconds: seconds(simulate.OverAt),
	}
	for _, r := range []struct {
		name  string
		sheds []simulate.Shedding
	}{
		{"The server sheds load", simulate.Guards()},
		{"The server refuses, which costs it a fifth of an answer; its clients shed load", simulate.Throttles()},
	} {
		var row []panel
		for _, shed := range r.sheds {
			o, err := shed.Play(simulate.Seed)
			if err != nil {
				return nil, err
			}
			row = append(row, overloadPanel(shed.Name, o))
		}
		s.names, s.rows = append(s.names, r.name), append(s.rows, row)
	}
	return s, nil
}

func overloadPanel(name string, o *simulate.Overload) panel {
	return panel{
		title: name,
		note:  fmt.Sprintf("%.0f a second in the rush, %.0f of %d after", o.Goodput(), o.After(), simulate.Usual),
		back:  o.Asked, front: o.Good, top: 1400, level: simulate.Capacity,
		from: seconds(simulate.RushFrom), to: seconds(simulate.RushTo),
	}
}
