package main

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/multistore"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/rule"
)

// maxStores bounds the stores of a server. Each has connections, heartbeats and series of
// metrics of its own.
const maxStores = 16

// named is a value of --store or --store-password-file.
type named struct{ name, value string }

// namedValues is the value of a flag that is given for each store: [NAME=]VALUE, repeated or
// separated by commas. The value without a name, which is that of the default store, is kept
// apart.
type namedValues struct {
	begins  *regexp.Regexp // matches the begin of a value after a comma
	unnamed *string
	named   []named
	given   bool // the default store is named
	twice   bool // and once more
}

// A piece after a comma that is not the begin of a value belongs to the value before, such as
// a second host in a URL.
var (
	beginsStore    = regexp.MustCompile(`^(?:[^:/?=@]*=)?(?:[a-z][a-z0-9+-]*://|memory$)`) // also of a name that is wrong
	beginsPassword = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}=`)
)

// Set adds the values of a text.
func (v *namedValues) Set(text string) error {
	var values []string
	for piece := range strings.SplitSeq(text, ",") {
		if len(values) > 0 && !v.begins.MatchString(piece) {
			values[len(values)-1] += "," + piece
		} else {
			values = append(values, piece)
		}
	}
	for _, value := range values {
		v.add(value)
	}
	return nil
}

func (v *namedValues) add(value string) {
	name, rest, found := strings.Cut(value, "=")
	switch {
	case found && name == rule.DefaultStore:
		value = rest
	case found && !strings.ContainsAny(name, ":/?"):
		v.named = append(v.named, named{name, rest})
		return
	}
	v.twice = v.twice || v.given
	v.given, *v.unnamed = true, value
}

// String returns the values as Set reads them.
func (v *namedValues) String() string {
	if v.unnamed == nil {
		return ""
	}
	all := []string{*v.unnamed}
	for _, n := range v.named {
		all = append(all, n.name+"="+n.value)
	}
	return strings.Join(all, ",")
}

// passwordFileOfEnvironment returns the password file of the default store that the
// environment names, for commands that use one store.
func passwordFileOfEnvironment() (file string) {
	files := namedValues{begins: beginsPassword, unnamed: &file}
	_ = files.Set(os.Getenv("STINT_STORE_PASSWORD_FILE")) // it accepts any text
	return file
}

// checkOneStore refuses a named store for a command that uses one store.
func checkOneStore(url string) error {
	if name, _, found := strings.Cut(url, "="); found && rule.ValidStore(name) {
		return usagef("store: this command uses one store (give its URL without %s=)", name)
	}
	return nil
}

// Type returns the kind of the value.
func (*namedValues) Type() string { return "storeList" }

// checkStores refuses names of stores that are wrong, and passwords without a store.
func (f *serveFlags) checkStores() error {
	stores, passwords := &f.stores, &f.storePasswords
	switch {
	case stores.twice:
		return usagef("store: the default store is given twice (name the others, such as --store critical=redis://…)")
	case passwords.twice:
		return usagef("store-password-file: the one of the default store is given twice (name the store of each further one, such as --store-password-file critical=FILE)")
	case len(stores.named) >= maxStores:
		return usagef("store: %d stores are given (give at most %d)", len(stores.named)+1, maxStores)
	}
	var names []string
	urls := []string{f.store}
	for _, n := range stores.named {
		if !rule.ValidStore(n.name) {
			return usagef("store: %.40q is not the name of a store (use up to 32 lower-case letters, digits and dashes, such as critical)", n.name)
		}
		if slices.Contains(names, n.name) {
			return usagef("store: %s is given twice (remove one)", n.name)
		}
		if n.value == memoryStore && f.store == memoryStore {
			return usagef("store: %s is a second memory store (give one of them the URL of a shared store)", n.name)
		}
		if slices.Contains(urls, n.value) {
			return usagef("store: %s has the URL of another store (remove one of them, or give it another server or database)", n.name)
		}
		names, urls = append(names, n.name), append(urls, n.value)
	}
	seen := map[string]bool{}
	for _, p := range passwords.named {
		if !slices.Contains(names, p.name) {
			return usagef("store-password-file: there is no store %.40q (%s)", p.name, namesOfStores(names))
		}
		if seen[p.name] {
			return usagef("store-password-file: that of %s is given twice (remove one)", p.name)
		}
		seen[p.name] = true
	}
	return nil
}

// namesOfStores says which names there are.
func namesOfStores(names []string) string {
	if len(names) == 0 {
		return "no store has a name: give --store NAME=URL"
	}
	return "name " + strings.Join(slices.Sorted(slices.Values(append([]string{rule.DefaultStore}, names...))), ", ")
}

// openStores sets the stores that the flags name in the configuration. The caller closes
// them.
func (f *serveFlags) openStores(c *server.Config, log *slog.Logger) (closeStores func() error, err error) {
	if len(f.stores.named) == 0 {
		return f.openStore(c, log)
	}
	var closers []func() error
	closeStores = func() error {
		var err error
		for _, closeOne := range closers {
			err = errors.Join(err, closeOne())
		}
		return err
	}
	all, few := map[string]stint.Store{}, map[string]string{}
	for _, n := range append([]named{{"", f.store}}, f.stores.named...) {
		one, closeOne, err := f.openNamed(c, n, log)
		if err != nil {
			return nil, errors.Join(err, closeStores())
		}
		closers = append(closers, closeOne)
		all[n.name] = one.Store
		c.Secrets = append(c.Secrets, one.Secrets...)
		if why := one.FewWrites[""]; why != "" {
			few[n.name] = why
		}
		if n.name == "" {
			c.Stats, c.MaxKeys, c.Shared, c.StoreCalls = one.Stats, one.MaxKeys, one.Shared, one.StoreCalls
			continue
		}
		c.Stores = append(c.Stores, metrics.StoreReader{Name: n.name, Stats: one.Stats, MaxKeys: one.MaxKeys, Shared: one.Shared, Calls: one.StoreCalls})
	}
	store, err := multistore.New(all)
	if err != nil {
		return nil, errors.Join(err, closeStores())
	}
	c.Store, c.KeptCharges, c.FewWrites = store, store.KeptCharges, few
	return closeStores, nil
}

// openNamed opens one store, and returns its part of the configuration. It measures a store
// that does not measure itself.
func (f *serveFlags) openNamed(c *server.Config, n named, log *slog.Logger) (one server.Config, closeStore func() error, err error) {
	own := *f
	own.store = n.value
	if n.name != "" {
		own.storePasswordFile = ""
	}
	for _, p := range f.storePasswords.named {
		if p.name == n.name {
			own.storePasswordFile = p.value
		}
	}
	one = server.Config{Tracer: c.Tracer, Logger: c.Logger}
	name := cmp.Or(n.name, rule.DefaultStore)
	if closeStore, err = own.openStore(&one, log.With("store", name)); err != nil {
		return one, nil, usagef("store: %s: %s", name, strings.TrimPrefix(err.Error(), "store: "))
	}
	if one.StoreCalls == nil {
		one.StoreCalls = metrics.NewStoreCalls(f.nativeHistograms)
		one.Store = stint.ObserveStore(one.Store, memoryStore, one.StoreCalls)
	}
	return one, closeStore, nil
}
