package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// adoptClient sets the topology and the addresses of Options.Client. It returns an error
// if an option is set that only the client's author can set.
func (o *Options) adoptClient() error {
	topology := Single
	switch mode := o.Client.Mode(); mode {
	case rueidis.ClientModeCluster:
		topology = Cluster
	case rueidis.ClientModeSentinel:
		topology = Sentinel
	case rueidis.ClientModeStandalone:
	default:
		return wrongOption(fmt.Sprintf("Client has the mode %q, which is unknown", mode), "use a client that rueidis.NewClient returned")
	}
	switch {
	case o.Topology != Single && o.Topology != topology:
		return wrongOption("Topology is not that of Client", "leave it out")
	case len(o.Addrs) > 0, o.Master != "", o.DB != 0, o.TLS != nil, o.Dial != nil,
		o.Username != "", o.Password != "", o.Credentials != nil,
		o.SentinelUsername != "", o.SentinelPassword != "", o.sentinel != nil, o.SentinelCredentials != nil:
		return wrongOption("Client is given together with addresses, credentials or other options of connections",
			"give these to rueidis.NewClient, and only Client here")
	}
	o.Topology = topology
	o.Addrs = addrsOf(o.Client)
	return nil
}

// addrsOf returns the servers that a client is connected to: all servers of a Cluster, or
// the master behind sentinels.
func addrsOf(client rueidis.Client) (addrs []string) {
	for addr := range client.Nodes() {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	return addrs
}

// newSharedNode returns the node of an Options.Client without a Cluster. Behind sentinels
// the client itself changes to another master, so the address is only for messages.
func newSharedNode(d *dialer) *node {
	return &node{dialer: d, resolve: func(context.Context) (string, error) {
		return strings.Join(addrsOf(d.opts.Client), ","), nil
	}}
}

// useSharedClient sets the client of a conn to Options.Client, or on a Cluster to the part
// of it for one server.
func (n *node) useSharedClient(c *conn) error {
	c.client, c.shared = n.dialer.opts.Client, true
	if n.cluster == nil {
		return nil
	}
	if n.cluster.hasSlots(n) { // without slots, probeKey would try all its names in vain
		n.introduce(c.ctx, n.probeKey())
	}
	part := n.dialer.opts.Client.Nodes()[c.addr]
	if part == nil {
		return &notConnected{errors.New("the client does not know this server yet")}
	}
	c.client = part
	return nil
}

// introduce makes Options.Client learn of a new server of the Cluster. The store follows
// redirections by itself, so the client does not see them and may not know the server. A
// read of a key that the server has, or is about to get, redirects the client too.
func (n *node) introduce(ctx context.Context, key string) {
	if client := n.dialer.opts.Client; client != nil && client.Nodes()[n.name] == nil {
		_ = client.Do(ctx, client.B().Strlen().Key(key).Build()).Error() // after an error the next connection tries again
	}
}
