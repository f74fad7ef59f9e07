package redistest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster. Its methods are for one goroutine, but for those
// of Server.
type Cluster struct {
	*Server
	nodes map[string]*Program // by address; those in the environment have none
}

// ClusterOptions are the options of StartCluster. nil and zero values: three
// masters without replicas.
type ClusterOptions struct {
	// Replicas is how many each master has.
	Replicas int
	// NodeTimeout is how long a node may be silent until it counts as failed.
	// A short one is for tests that call KillMaster: a node that is busy is
	// silent too. 0: 15 seconds, as Redis has it.
	NodeTimeout time.Duration
	// Config has more of redis.conf, as ProgramOptions has.
	Config [][]string
}

// masters is how many a cluster has.
const masters = 3

// StartCluster returns a cluster of redis-servers that end with the test, or
// that at SESSION_TEST_REDIS_CLUSTER if there is one and opts ask for nothing. It
// skips the test if redis-server is not installed.
func StartCluster(tb testing.TB, opts *ClusterOptions) *Cluster {
	tb.Helper()
	var o ClusterOptions
	if opts != nil {
		o = *opts
	}
	if list := os.Getenv("SESSION_TEST_REDIS_CLUSTER"); list != "" && o.Replicas == 0 && o.NodeTimeout == 0 && len(o.Config) == 0 {
		s := &Server{Name: "the cluster at " + list, Addrs: strings.Split(list, ","), IsCluster: true}
		return &Cluster{Server: use(tb, s)}
	}
	timeout := strconv.FormatInt(cmp.Or(o.NodeTimeout, 15*time.Second).Milliseconds(), 10)
	config := append(slices.Clone(o.Config), []string{"cluster-enabled", "yes"}, []string{"cluster-node-timeout", timeout},
		[]string{"cluster-replica-validity-factor", "0"}) // however long it was without its master
	c := &Cluster{Server: &Server{Name: "a cluster of redis-servers", IsCluster: true}, nodes: make(map[string]*Program)}
	for range masters * (1 + o.Replicas) {
		p := startProgram(tb, ProgramOptions{Config: config})
		c.Addrs = append(c.Addrs, p.Addrs[0])
		c.nodes[p.Addrs[0]] = p
	}
	c.join(tb)
	use(tb, c.Server)
	return c
}

// join makes a cluster of the nodes: the first are the masters.
func (c *Cluster) join(tb testing.TB) {
	tb.Helper()
	ctx := tb.Context()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("making a cluster: %v", err)
		}
	}
	ids := make([]string, masters)
	for i, address := range c.Addrs {
		node := c.node(tb, address)
		must(node.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if i < masters {
			must(node.ClusterAddSlotsRange(ctx, slots*i/masters, slots*(i+1)/masters-1).Err())
			id, err := node.ClusterMyID(ctx).Result()
			must(err)
			ids[i] = id
		}
		for _, other := range c.Addrs[:i] {
			host, port, err := net.SplitHostPort(other)
			must(err)
			must(node.ClusterMeet(ctx, host, port).Err())
		}
	}
	c.awaitNodes(tb, "all nodes to know each other", fmt.Sprint("cluster_known_nodes:", len(c.Addrs)))
	for i, address := range c.Addrs[masters:] {
		must(c.node(tb, address).ClusterReplicate(ctx, ids[i%masters]).Err())
	}
	for _, address := range c.Addrs[masters:] {
		node := c.node(tb, address)
		await(tb, "a replica to follow", func(ctx context.Context) (bool, error) {
			return infoHas(ctx, node, "replication", "master_link_status:up")
		})
	}
	c.awaitNodes(tb, "the cluster to be up", "cluster_state:ok")
	c.awaitAgreement(tb, len(c.Addrs))
}

// awaitNodes waits until CLUSTER INFO of each node has a line.
func (c *Cluster) awaitNodes(tb testing.TB, what, line string) {
	tb.Helper()
	for _, address := range c.Addrs {
		node := c.node(tb, address)
		await(tb, what, func(ctx context.Context) (bool, error) {
			info, err := node.ClusterInfo(ctx).Result()
			return hasLine(info, line), err
		})
	}
}

// awaitAgreement waits until each node tells clients of n nodes.
func (c *Cluster) awaitAgreement(tb testing.TB, n int) {
	tb.Helper()
	for _, address := range c.Addrs {
		node := c.node(tb, address)
		await(tb, "all nodes to be told of", func(ctx context.Context) (bool, error) {
			ranges, err := clusterSlots(ctx, node)
			told := make(map[string]bool)
			for _, r := range ranges {
				for _, at := range r.Nodes {
					told[at.Addr] = true
				}
			}
			return len(told) == n, err
		})
	}
}

func hasLine(text, line string) bool {
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

// node returns a client of one node.
func (c *Cluster) node(tb testing.TB, address string) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, Password: c.password})
	tb.Cleanup(func() { client.Close() })
	return client
}

// clusterSlots asks a node who has which slots. Redis 6 has nothing newer to
// ask for.
func clusterSlots(ctx context.Context, node *redis.Client) ([]redis.ClusterSlot, error) {
	cmd := redis.NewClusterSlotsCmd(ctx, "CLUSTER", "SLOTS")
	_ = node.Process(ctx, cmd) // cmd has the error
	return cmd.Result()
}

// shard is a master and its replicas, addresses all.
type shard struct {
	master   string
	replicas []string
}

// shards returns the masters that have slots, in the order of their addresses,
// as a node tells of them, and the one of a slot, which may be none.
func shards(ctx context.Context, node *redis.Client, slot int) (all []shard, of *shard, err error) {
	ranges, err := clusterSlots(ctx, node)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range ranges {
		if len(r.Nodes) == 0 {
			continue
		}
		s := shard{master: r.Nodes[0].Addr}
		for _, n := range r.Nodes[1:] {
			s.replicas = append(s.replicas, n.Addr)
		}
		if slot >= r.Start && slot <= r.End {
			of = &s
		}
		if !slices.ContainsFunc(all, func(known shard) bool { return known.master == s.master }) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b shard) int { return strings.Compare(a.master, b.master) })
	return all, of, nil
}

// shardOf returns all shards and that of a slot, as the first node that answers
// tells.
func (c *Cluster) shardOf(tb testing.TB, slot int) ([]shard, shard) {
	tb.Helper()
	var failed error
	for _, address := range c.Addrs {
		all, of, err := shards(tb.Context(), c.node(tb, address), slot)
		if err == nil && of != nil {
			return all, *of
		}
		failed = err
	}
	tb.Fatalf("no node knows who has slot %d: %v", slot, failed)
	return nil, shard{}
}
