package memstore

// Stored returns how many sessions are in memory, expired ones too.
func (s *Store) Stored() (n int) {
	for i := range s.shards {
		n += len(s.shards[i].sessions)
	}
	return n
}
