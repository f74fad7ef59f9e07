package filestore

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/crashtest"
)

func TestMain(m *testing.M) {
	roles := crashtest.Writing[*Store]{
		Open: func(dir string) (*Store, error) {
			return New(dir, &Options{Durability: DurabilityNormal, MaxOpenFiles: 2})
		},
		Size:  func(n int) int { return n % 9 * n % 9 * 3000 }, // some of them large
		Batch: writeBatch,
	}.Roles()
	maps.Copy(roles, agents)
	roles["serve"] = serveChild
	crashtest.Main(m, roles)
}

// TestTwoProcesses lets two processes append to one session, while a third reads
// it.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	s, told := openStore(t, dir, nil)
	crashtest.TwoProcesses(t, dir, func() {
		if _, err := s.Read(t.Context(), "s", &session.ReadOptions{Last: 5}); err != nil {
			t.Fatalf("Read beside writers: %v", err)
		}
	})
	again, _ := openStore(t, dir, nil)
	crashtest.CheckTwoProcesses(t, s)
	crashtest.CheckTwoProcesses(t, again)
	if d := told.take(); len(d) > 0 {
		t.Errorf("damage: %v", d)
	}
}

// writeBatch appends a batch, and from time to time drops it again, and appends
// it anew.
func writeBatch(ctx context.Context, s *Store, id string, batch []session.Message, n int) error {
	if _, err := s.Append(ctx, id, batch, nil); err != nil {
		return err
	}
	if n%7 == 3 {
		info, err := s.Info(ctx, id)
		if err != nil {
			return err
		}
		if _, err := s.Truncate(ctx, id, info.Messages-len(batch), nil); err != nil {
			return err
		}
		_, err = s.Append(ctx, id, batch, nil)
		return err
	}
	if n%11 == 5 {
		_, err := s.Update(ctx, id, func(m *session.Meta) error { m.Title = fmt.Sprint(n); return nil })
		return err
	}
	return nil
}

func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	crashtest.KilledWriter(t, dir, 100, func(checkBatches func(session.Backend)) {
		s, _ := openStore(t, dir, nil)
		checkBatches(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
