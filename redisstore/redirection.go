package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// redirection is the answer of a Cluster node that did not run a call, because
// another node owns the slot or the slot migrates.
type redirection struct {
	slot   uint16
	addr   string
	asking bool // ASK: the slot migrates to addr, which may already have the missing keys
	later  bool // TRYAGAIN: the slot migrates, and each side has some of the call's keys
}

// redirected reads a redirection out of an error of the server at from.
func redirected(err error, from string) (redirection, bool) {
	var answer *rueidis.RedisError
	if err == nil || !errors.As(err, &answer) {
		return redirection{}, false
	}
	words := strings.Fields(answer.Error())
	switch {
	case len(words) > 0 && words[0] == "TRYAGAIN":
		return redirection{later: true}, true
	case len(words) < 3 || words[0] != "MOVED" && words[0] != "ASK":
		return redirection{}, false
	}
	slot, err := strconv.ParseUint(words[1], 10, 14)
	cut := strings.LastIndexByte(words[2], ':') // of IPv6 too, which comes without brackets
	if err != nil || cut < 0 {
		return redirection{}, false
	}
	return redirection{
		slot: uint16(slot), addr: reachable(words[2][:cut], words[2][cut+1:], from), asking: words[0] == "ASK",
	}, true
}

// reachable returns the address of a server that the server at from names. A server
// that does not know its own host leaves the host out. A loopback address from a
// server that is not on loopback is wrong for this process. In both cases the host of
// from replaces it.
func reachable(host, port, from string) string {
	asked, _, err := net.SplitHostPort(from)
	if err == nil && (host == "" || host == "?" || loopback(host) && !loopback(asked)) {
		host = asked
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// shard is a range of slots and the master that keeps it.
type shard struct {
	first, last int
	addr        string
}

var errNoSlots = errors.New("the cluster has no slots yet")

// shards asks a node who keeps which slots.
func (n *node) shards(ctx context.Context) ([]shard, error) {
	l, err := n.connected(ctx, !probing)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	ranges, err := l.client.Do(ctx, l.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	var all []shard
	for _, r := range ranges {
		if s, ok := readShard(r, l.addr); ok {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, errNoSlots
	}
	return all, nil
}

// readShard reads the first and last slot and the master of one range; the
// replicas follow.
func readShard(r rueidis.RedisMessage, from string) (shard, bool) {
	parts, err := r.ToArray()
	if err != nil || len(parts) < 3 {
		return shard{}, false
	}
	first, err1 := parts[0].AsInt64()
	last, err2 := parts[1].AsInt64()
	master, err3 := parts[2].ToArray()
	if err1 != nil || err2 != nil || err3 != nil || len(master) < 2 || first < 0 || last >= slots {
		return shard{}, false
	}
	host, _ := master[0].ToString() // null: it does not know its own name
	port, err := master[1].AsInt64()
	return shard{first: int(first), last: int(last), addr: reachable(host, strconv.FormatInt(port, 10), from)}, err == nil
}
