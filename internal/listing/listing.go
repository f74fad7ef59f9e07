// Package listing puts the heads of a list in order for drivers whose index
// knows only about when a session was updated.
package listing

import (
	"cmp"
	"container/heap"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// Newer is the order of a list: the newest update first, ties by ID.
func Newer(a, b session.Head) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.ID, b.ID))
}

// Wanted reports whether a head is one that q asks for.
func Wanted(q session.HeadQuery, h session.Head) bool {
	return strings.HasPrefix(h.ID, q.Prefix) && !h.Updated.Before(q.Since) &&
		(q.AfterUpdated.IsZero() || Newer(session.Head{ID: q.AfterID, Updated: q.AfterUpdated}, h) < 0)
}

// PageSize is how many heads are worth reading at first, if most can be.
func PageSize(q session.HeadQuery, most int) int {
	if q.Limit > 0 {
		return min(most, q.Limit+1)
	}
	return most
}

// InOrder yields the heads that q asks for, in order, until yield returns
// false. page reads some n more, in any order, and says what none that is still
// to come is newer than: the zero time if none is. Heads wait until what is
// still to come can't be newer. The pages grow, up to most.
func InOrder(q session.HeadQuery, most int, page func(n int) ([]session.Head, time.Time, error), yield func(session.Head) bool) error {
	var waiting heads
	for n := PageSize(q, most); ; n = min(2*n, most) {
		read, newest, err := page(n)
		if err != nil {
			return err
		}
		for _, h := range read {
			if Wanted(q, h) {
				heap.Push(&waiting, h)
			}
		}
		for len(waiting) > 0 && (newest.IsZero() || waiting[0].Updated.After(newest)) {
			if !yield(heap.Pop(&waiting).(session.Head)) {
				return nil
			}
		}
		if newest.IsZero() {
			return nil
		}
	}
}

type heads []session.Head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return Newer(h[i], h[j]) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(session.Head)) }

func (h *heads) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = session.Head{}
	*h = old[:len(old)-1]
	return last
}
