package server

import (
	"path/filepath"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/identity"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/httplimit"
)

// An emergency is a rule that the server adds to the rules in force, and takes away again.
// So it counts with all other rules in one group, after the lists, and every surface shows
// it as it shows a rule. Checks pay nothing without one. Takes and Envoy's requests
// bring their limits: for these the version in force has the claim that joins.

// newSwitch returns the switch of this server. folder is where its state is kept, or "".
func (r *rules) newSwitch(source ruleset.Source, folder string) *emergency.Switch {
	o := emergency.Options{Use: r.useEmergency, Changed: r.manager.AnnounceNow, Logger: r.log}
	o.Source, _ = source.(emergency.Source)
	if folder != "" {
		o.File = filepath.Join(folder, "emergency.state")
	}
	return emergency.New(o)
}

// useEmergency puts an emergency in force, or, with nil, none. After an error the rules, and an
// emergency that was on before, stay in force.
func (r *rules) useEmergency(s *emergency.State) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	was := r.emergency
	r.emergency = s
	v, err := r.withEmergencyLocked()
	if err != nil {
		r.emergency = was
		return err
	}
	r.install(v)
	return nil
}

// install puts a version in force.
func (r *rules) install(v *version) {
	r.penalties.Use(v.sets()...)
	r.current.Store(v)
	r.metrics.CanaryInForce(v.canaryShare())
	if v.emergency == nil {
		r.metrics.EmergencyOff()
	} else {
		r.metrics.EmergencyOn(v.emergency.Ends)
	}
}

// withEmergencyLocked returns the rules with the emergency that is on, if one is. With an
// error it returns the rules alone.
func (r *rules) withEmergencyLocked() (*version, error) {
	if r.emergency == nil {
		return r.base, nil
	}
	f, err := emergency.Apply(*r.emergency, r.from.Files)
	if err != nil {
		return r.base, err
	}
	v, err := r.newVersion(f.Set)
	if err != nil {
		return r.base, err
	}
	f.Set, v.emergency, v.warned = v.set, f, r.base.warned
	r.joinCanary(v)
	return v, nil
}

// inEmergency returns the emergency that is on, or nil. It costs one atomic load.
func (r *rules) inEmergency() *emergency.InForce { return r.current.Load().emergency }

// CheckBy returns an error for an attribute that the requests of this server do not have.
func (r *rules) CheckBy(by string) error {
	set, _ := r.manager.Current()
	return emergency.CheckBy(by, set.Attributes(), func(name string) error {
		return identity.CheckAttribute(name, r.tokens())
	})
}

// emergencyAPI is the switch with the checks of this server, for the admin API.
type emergencyAPI struct {
	*emergency.Switch

	rules *rules
}

func (e emergencyAPI) CheckBy(by string) error { return e.rules.CheckBy(by) }

// markEmergency adds the header of the emergency to a denial that it has caused.
func markEmergency(f *emergency.InForce, a *httplimit.Answer) {
	if f == nil || a.Allowed() {
		return
	}
	for i := range a.Policies {
		if p := &a.Policies[i]; p.Exceeded && p.Limit.Rule() == emergency.Rule {
			a.Header = f.Header
		}
	}
}
