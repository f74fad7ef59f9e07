package filestore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session/internal/drivertest"
)

// TestRandomCommits makes commits of all kinds through several drivers, which
// are opened anew now and then, and compares heads and parts of the history with
// a model after each.
func TestRandomCommits(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			opts := &Options{Durability: DurabilityNormal, MaxOpenFiles: 2}
			drivers := []*files{openDriver(t, dir, opts), openDriver(t, dir, opts), openDriver(t, dir, opts)}
			defer func() {
				for _, d := range drivers {
					d.Close()
				}
			}()
			ids := []string{"a", "a/b", "b", "A", strings.Repeat("É", 100)}
			mix := drivertest.Mix{Remove: 25, Cut: 6, Sizes: []int{10, 300, 2000, 9000, 70_000}, Appends: true}
			sessions := drivertest.Sessions{}
			now := time.Unix(1_700_000_000, 0).UTC()
			for step := range 600 {
				i := rnd.IntN(len(drivers))
				if rnd.IntN(40) == 0 {
					if err := drivers[i].Close(); err != nil {
						t.Fatal(err)
					}
					drivers[i] = openDriver(t, dir, opts)
				}
				id := ids[rnd.IntN(len(ids))]
				now = now.Add(time.Duration(rnd.Int64N(int64(time.Second))))
				c := sessions.Commit(rnd, id, step, now, mix)
				if err := drivers[i].Commit(t.Context(), id, c); err != nil {
					t.Fatalf("step %d: Commit: %v", step, err)
				}
				sessions.Apply(id, c)
				sessions.Check(t, drivers[rnd.IntN(len(drivers))], id, rnd, mix)
				if t.Failed() {
					t.Fatalf("step %d", step)
				}
			}
		})
	}
}
