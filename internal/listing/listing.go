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

// Waiting holds heads back until what is still to come can't be newer. The
// zero Waiting is empty.
type Waiting struct{ heads heads }

// Add adds a head.
func (w *Waiting) Add(h session.Head) { heap.Push(&w.heads, h) }

// Next takes the newest head, if it is newer than newest, which no head that
// is still to come exceeds.
func (w *Waiting) Next(newest time.Time) (session.Head, bool) {
	if len(w.heads) == 0 || !w.heads[0].Updated.After(newest) {
		return session.Head{}, false
	}
	return heap.Pop(&w.heads).(session.Head), true
}

// Rest takes the newest head; nothing is still to come.
func (w *Waiting) Rest() (session.Head, bool) {
	if len(w.heads) == 0 {
		return session.Head{}, false
	}
	return heap.Pop(&w.heads).(session.Head), true
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
