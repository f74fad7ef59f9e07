package redistest

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	migrateKeys    = 10              // in one MIGRATE
	migrateTimeout = 5 * time.Second // of one MIGRATE
	// failoverTimeout is when Redis gives up a failover that was asked for. It
	// does so if master and replica have not yet heard of each other's roles.
	failoverTimeout = 6 * time.Second
)

// MoveSlot moves a slot from its master to another, key by key, as redis-cli
// does while the cluster is in use. halfway is called when the two masters know
// of the move and the first key, if there is one, has gone; nil: it is not.
func (c *Cluster) MoveSlot(tb testing.TB, slot int, halfway func()) {
	tb.Helper()
	ctx := tb.Context()
	all, from := c.shardOf(tb, slot)
	to := all[(slices.IndexFunc(all, func(s shard) bool { return s.master == from.master })+1)%len(all)]
	if to.master == from.master {
		tb.Fatal("a slot can't move in a cluster of one master")
	}
	source, target := c.node(tb, from.master), c.node(tb, to.master)
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("moving slot %d from %s to %s: %v", slot, from.master, to.master, err)
		}
	}
	sourceID, err := source.ClusterMyID(ctx).Result()
	check(err)
	targetID, err := target.ClusterMyID(ctx).Result()
	check(err)
	check(target.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID).Err())
	check(source.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID).Err())
	_, err = c.migrate(ctx, source, to.master, slot, 1)
	check(err)
	if halfway != nil {
		halfway()
	}
	for more := true; more; {
		more, err = c.migrate(ctx, source, to.master, slot, migrateKeys)
		check(err)
	}
	check(target.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", targetID).Err())
	check(source.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", targetID).Err())
	for _, s := range all {
		if s.master != to.master && s.master != from.master {
			check(c.node(tb, s.master).Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", targetID).Err())
		}
	}
}

// migrate moves up to n keys of a slot, and reports whether there were any.
func (c *Cluster) migrate(ctx context.Context, source *redis.Client, to string, slot, n int) (bool, error) {
	keys, err := source.ClusterGetKeysInSlot(ctx, slot, n).Result()
	if err != nil || len(keys) == 0 {
		return false, err
	}
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return false, err
	}
	command := []any{"MIGRATE", host, port, "", 0, migrateTimeout.Milliseconds()}
	if c.password != "" {
		command = append(command, "AUTH", c.password)
	}
	command = append(command, "KEYS")
	for _, k := range keys {
		command = append(command, k)
	}
	return true, source.Do(ctx, command...).Err()
}

// Failover makes the replica of a slot's master the master, which loses no
// write, and waits until it is. Don't make one node a master twice: soon after
// an election that it has won, Redis 7.0 takes the old votes for new ones.
func (c *Cluster) Failover(tb testing.TB, slot int) {
	tb.Helper()
	var s shard
	await(tb, "the master to have a replica", func(context.Context) (bool, error) {
		_, s = c.shardOf(tb, slot)
		return len(s.replicas) > 0, nil
	})
	replica := c.node(tb, s.replicas[0])
	await(tb, "the replica to follow", func(ctx context.Context) (bool, error) {
		return infoHas(ctx, replica, "replication", "master_link_status:up")
	})
	var asked time.Time
	await(tb, "the replica to become the master", func(ctx context.Context) (bool, error) {
		if time.Since(asked) > failoverTimeout {
			asked = time.Now()
			if err := replica.ClusterFailover(ctx).Err(); err != nil {
				return false, err
			}
		}
		return infoHas(ctx, replica, "replication", "role:master")
	})
	c.awaitMaster(tb, slot, s.replicas[:1])
}

// KillMaster ends the master of a slot as a crash would, and waits until a
// replica has become the master or, if there is none, until the cluster is
// down. Writes that the master had not yet passed on are lost. Later clients
// don't know its address.
func (c *Cluster) KillMaster(tb testing.TB, slot int) {
	tb.Helper()
	_, s := c.shardOf(tb, slot)
	p := c.nodes[s.master]
	if p == nil {
		tb.Fatalf("the master %s is not this test's to kill", s.master)
	}
	p.Kill()
	delete(c.nodes, s.master)
	c.Addrs = slices.DeleteFunc(slices.Clone(c.Addrs), func(a string) bool { return a == s.master })
	if len(s.replicas) > 0 {
		c.awaitMaster(tb, slot, s.replicas)
	} else {
		c.awaitNodes(tb, "the cluster to be down", "cluster_state:fail")
	}
}

// awaitMaster waits until all nodes know one of several as a slot's master.
func (c *Cluster) awaitMaster(tb testing.TB, slot int, among []string) {
	tb.Helper()
	for _, address := range c.Addrs {
		node := c.node(tb, address)
		await(tb, "a replica to become the master", func(ctx context.Context) (bool, error) {
			_, of, err := shards(ctx, node, slot)
			return of != nil && slices.Contains(among, of.master), err
		})
	}
}
