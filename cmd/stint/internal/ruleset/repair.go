package ruleset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stintdev/stint/rule"
)

// Repairing configures a [Repair].
type Repairing struct {
	// Files are the rules to publish. If it is empty, Repair publishes again the
	// newest genuine version that is whole and without mistakes.
	Files           []rule.File
	Author, Comment string
	// Sure is called before anything is changed. An error cancels the repair.
	Sure func(Findings) error
}

// Findings are the results of the inspection before a repair.
type Findings struct {
	Forged []Version // versions that Stint did not number, the newest first, as far as they can be listed
	Again  uint64    // the version that is published again; 0: the caller's files are published
	Number uint64    // number of the repaired version
}

// Repair restores a source after somebody else has written versions to it. It
// forgets the versions whose numbers Stint did not give out, and publishes
// rules under the next number after the last genuine one. Nodes that run a
// forgotten version accept the repaired one although its number is lower.
// Genuine versions stay in the source.
func Repair(ctx context.Context, s Source, r Repairing) (Version, error) {
	source, ok := s.(interface {
		Source
		Truncater
	})
	if !ok {
		return Version{}, errors.New("this source has nothing to repair: its versions are in files (edit them)")
	}
	listed, err := source.History(ctx, listedOnDisk)
	if err != nil && !errors.Is(err, ErrDamaged) { // a damaged list is rewritten
		return Version{}, err
	}
	genuine, forged := split(listed)
	v, again, err := r.version(ctx, source, genuine)
	if err != nil {
		return Version{}, err
	}
	last := uint64(0)
	if len(genuine) > 0 {
		last, v.Number = genuine[0].Number, genuine[0].Number+1
	} else {
		v.Number = runs(ctx, source) + 1
	}
	if err := r.Sure(Findings{Forged: forged, Again: again, Number: v.Number}); err != nil {
		return Version{}, err
	}
	if err := source.Truncate(ctx, last); err != nil {
		return Version{}, err
	}
	return source.Publish(ctx, last, v)
}

// runs returns the highest number that a node announces, unless it is far
// ahead. Without genuine versions the repaired one needs a higher number: a
// node ignores a lower number that is close to its own.
func runs(ctx context.Context, s Source) uint64 {
	fleet, ok := s.(Fleet)
	if !ok {
		return 0
	}
	nodes, err := fleet.Nodes(ctx)
	if err != nil {
		return 0 // the announcements are damaged too
	}
	return furthest(nodes, 0).Version
}

// split separates genuine from forged versions, the newest first in each list.
// Genuine numbers grow by one, or by a few where a source was restored. The
// first number far ahead of the one before it begins the forged ones.
func split(listed []Version) (genuine, forged []Version) {
	before := uint64(0)
	for i, v := range slices.Backward(listed) {
		if v.Number-before > farAhead {
			return listed[i+1:], listed[:i+1]
		}
		before = v.Number
	}
	return listed, nil
}

// version returns the version to publish. again is the number of the version
// that it repeats, or 0.
func (r *Repairing) version(ctx context.Context, s Source, genuine []Version) (v Version, again uint64, err error) {
	if len(r.Files) > 0 {
		c := Change{Files: r.Files, Author: r.Author, Comment: r.Comment}
		v, err = c.version()
		v.Repaired = true
		return v, 0, err
	}
	for _, listed := range genuine {
		whole, err := s.Get(ctx, listed.Number)
		if err != nil || whole.Hash != HashOf(whole.Files) {
			continue // a node would reject it too
		}
		if _, err := whole.Set(); err == nil {
			comment := r.Comment
			if comment == "" {
				comment = fmt.Sprintf("version %d again, by a repair", whole.Number)
			}
			return Version{Time: time.Now().UTC(), Author: r.Author, Comment: comment, Hash: whole.Hash, Files: whole.Files, Repaired: true}, whole.Number, nil
		}
	}
	return v, 0, errors.New("no genuine version is left to publish again (name the file with the rules)")
}
