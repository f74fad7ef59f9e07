package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/redisstore"
	"github.com/holdfast-go/session/storetest"
)

// TestLinearizable judges what concurrent clients see, while connections break
// wherever they can, and requests that were given up come late.
func TestLinearizable(t *testing.T) {
	onEach(t, func(t *testing.T, server *redistest.Server) {
		for _, test := range []struct {
			name    string
			retries int
		}{
			{"Retries", 3},
			{"NoRetries", -1},
		} {
			t.Run(test.name, func(t *testing.T) {
				prefix := server.Prefix(t)
				faults := &redistest.Faults{Delay: 3 * time.Millisecond, Choose: redistest.Random(11, map[redistest.Fault]float64{
					redistest.NotSent: 0.02, redistest.HalfSent: 0.02, redistest.Late: 0.04, redistest.ReplyLost: 0.04, redistest.ReplyCut: 0.02, redistest.Slow: 0.02,
				})}
				var logs []session.Log
				for range 3 {
					client := server.Client(t, redistest.Through(faults), func(o *redis.UniversalOptions) {
						o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = test.retries, time.Millisecond, 5*time.Millisecond
					})
					logs = append(logs, openAt(t, client, &redisstore.Options{Prefix: prefix}))
				}
				storetest.Linearizable(t, logs, &storetest.LinearOptions{AllowFailures: true, Rounds: 40, Seed: 3})
				faults.Stop()
				for f := redistest.NotSent; f <= redistest.Slow; f++ {
					if faults.Count(f) == 0 {
						t.Errorf("no request met the fault %q", f)
					}
				}
			})
		}
	})
}
