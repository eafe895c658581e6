package redisstoretest

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

// newClient returns a client of the program, with the defaults of package rueidis.
func newClient(t *testing.T, o rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestContractOnAClientOfTheProgram(t *testing.T) {
	suite(t, redisstore.Options{Client: newClient(t, rueidis.ClientOption{InitAddress: []string{redistest.Server(t).Addr()}})}, 10, 12)
}

func TestContractOnAClientOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	client := newClient(t, rueidis.ClientOption{InitAddress: redistest.Cluster(t, 3, 0).Addrs()[:1]})
	suite(t, redisstore.Options{Topology: redisstore.Cluster, Client: client}, 5, 10)
}

func TestContractOnAClientBehindSentinels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	servers := redistest.Sentinel(t)
	client := newClient(t, rueidis.ClientOption{
		InitAddress: servers.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: servers.Name, TopologyRefreshInterval: time.Second},
	})
	suite(t, redisstore.Options{Client: client}, 5, 10)
}
