package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stintdev/stint"
)

// Init founds a quorum of servers that are all reachable and empty, as the first store that
// reaches them does. It returns an error that says why it cannot, such as that a server is a
// member already.
func Init(ctx context.Context, o Options) error {
	b, done, err := o.tool()
	if err != nil {
		return err
	}
	defer done()
	return b.initialize(ctx)
}

// Repaired is the result of [Repair] for one server.
type Repaired struct {
	Server string
	// Err is nil if the server has all counts.
	Err error
}

// Repair gives each server that has lost its data, or was started again, the counts that the
// others have, as a store does in the background. It returns the servers in the order of the
// options, and an error if any of them still lacks counts.
func Repair(ctx context.Context, o Options) (all []Repaired, err error) {
	b, done, err := o.tool()
	if err != nil {
		return nil, err
	}
	defer done()
	if err := b.tend(ctx); err != nil && ctx.Err() != nil {
		return nil, err
	}
	for _, m := range b.members {
		r := Repaired{Server: m.name(), Err: b.repair(ctx, m)}
		all, err = append(all, r), errors.Join(err, r.Err)
	}
	return all, err
}

// Replace puts the server now in the place of old. The options name the servers as they are
// before, with old. The new server and all of them but old must answer. From then on they
// accept only calls of stores whose options name the new servers. The new server is empty:
// [Repair], which a store also does in the background, gives it the counts.
//
// After an error, some servers may accept no calls until Replace is called again.
//
// Replace one server, let it be repaired, and replace the next one then.
func Replace(ctx context.Context, o Options, old, now string) error {
	at := slices.Index(o.Servers, old)
	switch {
	case at < 0:
		return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: fmt.Sprintf("the server %s is not one of %s", old, strings.Join(o.Servers, ", ")), Mend: "name a server as the store's URL names it"}
	case slices.Contains(o.Servers, now):
		return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "the server " + now + " is one of the servers already", Mend: "name another one"}
	}
	before := membersHash(o.Servers)
	o.Servers = slices.Clone(o.Servers)
	o.Servers[at] = now
	b, done, err := o.tool()
	if err != nil {
		return err
	}
	defer done()
	return b.replace(ctx, at, before)
}

// tool returns a backend for one command.
func (o *Options) tool() (b *backend, done func(), err error) {
	if err := o.setDefaults(); err != nil {
		return nil, nil, err
	}
	b, clients := o.connect()
	return b, func() {
		for _, c := range clients {
			c.close()
		}
	}, nil
}

// ServerAddress returns the address of a server as [ParseURL] would have it in
// Options.Servers: with its port, and in lower case. It returns an error if the text is no
// address.
func ServerAddress(text string) (string, error) {
	full, ok := address(text)
	if !ok {
		return "", &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "the server is not host:port with a port from 1 to 65535", Mend: "write it as in the store's URL"}
	}
	return full, nil
}
