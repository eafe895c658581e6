package ruleset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Following returns a channel that is closed once Run notices every change.
func (k *Manager) Following() <-chan struct{} { return k.following }

// Reload makes Run query the source now and put the rules in force again even
// if nothing has changed. SIGHUP triggers it. Reload does not wait.
func (k *Manager) Reload() {
	if s, ok := k.Source.(interface{ Refresh() }); ok {
		s.Refresh()
	}
	k.asked.Store(true)
	poke(k.wake)
}

// Run watches the source and installs new versions until ctx ends. Call it
// once.
func (k *Manager) Run(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { k.Source.Watch(ctx, func() { poke(k.wake) }) })
	if fleet, ok := k.Source.(Fleet); ok {
		beside.Go(func() { k.announce(ctx, fleet) })
	}
	var once sync.Once
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
			k.lookAgain(ctx)
			once.Do(func() { close(k.following) })
		}
	}
}

func (k *Manager) lookAgain(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	asked := k.asked.Swap(false)
	if asked {
		k.forgetSaid()
	}
	err := k.look(within, asked)
	switch {
	case ctx.Err() != nil: // shutdown, not a failure
	case err != nil:
		k.report(err)
	default:
		k.forgetSaid()
	}
}

func (k *Manager) forgetSaid() {
	k.looks.Lock()
	defer k.looks.Unlock()
	k.looks.said = ""
}

// look queries the source and installs the newest version if it is newer. The
// error says why the version was rejected.
func (k *Manager) look(ctx context.Context, asked bool) error {
	_, now := k.Current()
	newest, err := k.newest(ctx)
	if v, ok := k.repaired(ctx, newest, now); ok {
		return k.take(v, asked)
	}
	switch {
	case err != nil:
	case newest.Number == 0 && now.Number > 0:
		err = errGone
	case newest.Number == 0:
	case newest.Number < now.Number:
		err = fmt.Errorf("the newest version of the source is %d, as if it had been restored from a backup, and this node keeps %d, which it runs (publish the rules again, which numbers them anew)", newest.Number, now.Number)
	case newest.Number == now.Number && newest.Hash != now.Hash:
		err = fmt.Errorf("version %d of the source is another than version %d that this node runs and keeps (publish the rules again, which numbers them anew)", newest.Number, now.Number)
	case newest.Number == now.Number && !asked:
		k.confirm(now)
	default:
		return k.fetch(ctx, newest, asked)
	}
	return err
}

// repaired returns the newest version of the source if a repair has numbered it
// far below the version in force.
func (k *Manager) repaired(ctx context.Context, newest, now Version) (Version, bool) {
	if newest.Number == 0 || newest.Number > now.Number || now.Number-newest.Number <= farAhead {
		return Version{}, false
	}
	v, err := k.Source.Get(ctx, newest.Number)
	return v, err == nil && v.Repaired && v.Hash == HashOf(v.Files)
}

// newest returns the newest version that the source lists, or number 0 when
// there is none. It records the look as successful only if that version need
// not be fetched; otherwise fetch records it.
func (k *Manager) newest(ctx context.Context) (v Version, err error) {
	listed, err := k.Source.History(ctx, 1)
	if len(listed) > 0 {
		v = listed[0]
	}
	if _, now := k.Current(); err != nil || v.Number <= now.Number {
		k.looked(err)
	}
	return v, err
}

// confirm records that the source has the version that was loaded from the
// local copy.
func (k *Manager) confirm(now Version) {
	if k.copied.Swap(false) {
		k.Logger.Info("rules: the source has the version of the local copy", "version", now.Number)
	}
}

// fetch gets a version that the source has listed and installs it.
func (k *Manager) fetch(ctx context.Context, listed Version, asked bool) error {
	v, err := k.Source.Get(ctx, listed.Number)
	k.looked(err)
	if err != nil {
		return fmt.Errorf("version %d: %w", listed.Number, err)
	}
	if v.Number != listed.Number || v.Hash != HashOf(v.Files) {
		return fmt.Errorf("version %d of the source %w: its files are not those of its hash (publish the rules again)", listed.Number, ErrDamaged)
	}
	return k.take(v, asked)
}

// looked records the result of a look at the source. Rules with mistakes count
// as a success, because the source answered.
func (k *Manager) looked(err error) {
	if _, ok := errors.AsType[*InvalidError](err); ok {
		err = nil
	}
	k.looks.Lock()
	k.looks.failed++
	if err == nil {
		k.looks.failed = 0
	}
	failed := k.looks.failed
	k.looks.Unlock()
	if failed == downAfter {
		k.Logger.Error("rules: the source does not answer; the last good version is served on", "source", k.Source.String(), "looks", failed, "error", err)
	}
	if k.OnLook != nil {
		k.OnLook(err)
	}
}

// announce tells the other nodes which version this node runs: periodically,
// and at once when the version changes.
func (k *Manager) announce(ctx context.Context, fleet Fleet) {
	tick := time.NewTicker(AnnounceEvery)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, AnnounceEvery)
		if err := fleet.Announce(within, k.self()); err != nil {
			k.Logger.Debug("rules: this node cannot announce itself", "error", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.renew:
		}
	}
}
