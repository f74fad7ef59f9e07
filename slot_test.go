package session

import (
	"fmt"
	"testing"
)

func TestSlotsInUseStay(t *testing.T) {
	var s slots
	used := make([]*slot, maxIdleSlots)
	for i := range used {
		used[i] = s.enter(fmt.Sprint("used ", i))
	}
	for i := range 100 { // over the bound, and in use too
		id := fmt.Sprint("more ", i)
		if sl := s.enter(id); s.enter(id) != sl {
			t.Fatalf("the slot of %s was replaced while in use", id)
		}
	}
	for i, sl := range used {
		if s.m[fmt.Sprint("used ", i)] != sl {
			t.Fatalf("slot %d was evicted while in use", i)
		}
		s.leave(sl)
	}
	s.enter("one more")
	if n := len(s.m); n > maxIdleSlots {
		t.Errorf("%d slots stay though most are idle, want %d at most", n, maxIdleSlots)
	}
}
