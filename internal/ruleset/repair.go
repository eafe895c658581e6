package ruleset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stintdev/stint/rule"
)

// Repairing is what a [Repair] is to do.
type Repairing struct {
	// Files are the rules to publish. Empty publishes the newest version again that
	// Stint gave its number, and that is whole and without mistakes.
	Files           []rule.File
	Author, Comment string
	// Sure is asked before anything is changed; an error ends the repair.
	Sure func(Findings) error
}

// Findings are what a repair has found.
type Findings struct {
	Forged []Version // versions that Stint never numbered, the newest first, as far as they can be listed
	Again  uint64    // the number of the version that is published again; 0: others are
	Number uint64    // that the repaired version gets
}

// Repair takes a source back from somebody who could write to it: it forgets the
// versions whose numbers Stint never gave out, and publishes rules by the number
// after the last that it did. Nodes that run a forgotten version follow, though
// that number is lower. What the source holds below stays.
func Repair(ctx context.Context, s Source, r Repairing) (Version, error) {
	source, ok := s.(interface {
		Source
		Truncater
	})
	if !ok {
		return Version{}, errors.New("this source has nothing to repair: its versions are in files (edit them)")
	}
	listed, err := source.History(ctx, listedAtAll)
	if err != nil && !errors.Is(err, ErrDamaged) { // a list that cannot be read is written anew
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

// runs is the highest number that a node says it runs, unless that is far ahead: a
// node follows no number below its own that is near it.
func runs(ctx context.Context, s Source) uint64 {
	fleet, ok := s.(Fleet)
	if !ok {
		return 0
	}
	nodes, err := fleet.Nodes(ctx)
	if err != nil {
		return 0 // what nodes say is damaged too
	}
	return furthest(nodes, 0).Version
}

// split parts versions, the newest first, at the first number that is far ahead of
// the one before: numbers grow by one, or by a few where a source was restored.
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

// version is what is to be published, and the number of which it is again.
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
			continue // a node would not take it either
		}
		if _, err := whole.Set(); err == nil {
			comment := r.Comment
			if comment == "" {
				comment = fmt.Sprintf("version %d again, by a repair", whole.Number)
			}
			return Version{Time: time.Now().UTC(), Author: r.Author, Comment: comment, Hash: whole.Hash, Files: whole.Files, Repaired: true}, whole.Number, nil
		}
	}
	return v, 0, errors.New("no version is left that could be published again (name the file with the rules)")
}
