package redisstore

import (
	_ "embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A session has up to four keys. All hold its ID in braces, so that a cluster
// keeps them on one node; in the ID, "%" is "%25" and "}" is "%7D", so that
// nothing but the end of the ID ends the braces.
//
//	prefix{ID}:head      string, see below
//	prefix{ID}:messages  list: one message each, as JSON
//	prefix{ID}:meta      string: Meta, as JSON; not there if there is none
//	prefix{ID}:commits   list, until ten minutes after the last commit: the
//	                     latest revisions, at least 2,048, and what names
//	                     removals and refused creations. A commit whose reply
//	                     was lost, and which is sent again, is known by it,
//	                     whatever has come between
//
// The head is lines of text, and last the contract's record as it is:
//
//	1                  the format's version
//	revision
//	count              of messages
//	two digits         1 or 0: it has Meta, it expires
//	base
//	updated            Unix nanoseconds
//	expires            Unix nanoseconds, 0: never
//	listed             Unix microseconds: when it was last put into the index
//
// In revision and base "%" is "%25" and a line feed is "%0A". Head, messages and
// Meta of a session expire together, a minute after it. The head tells whether
// messages and Meta are all there.
//
// The lists' index is outside of any session: sorted sets of IDs by when they
// were updated, in Unix microseconds, give or take: a session was updated at
// most Options.IndexEvery after the time that it stands at.
//
//	prefix{}:all         all sessions but hidden ones
//	prefix{folder/}:in   the sessions of a folder, for the folders that an ID
//	                     begins with, the first eight of them
//
// The first of these has empty braces, which count for nothing in a cluster:
// the whole key is hashed. No session has it: IDs are not empty.
const formatVersion = 1

// indexedFolders is how many of the folders that an ID is in have an index.
const indexedFolders = 8

var (
	escapeLine   = strings.NewReplacer("%", "%25", "\n", "%0A")
	unescapeLine = strings.NewReplacer("%25", "%", "%0A", "\n")
)

var escapeID = strings.NewReplacer("%", "%25", "}", "%7D")

func (d *driver) headKey(id string) string     { return d.tag(id) + ":head" }
func (d *driver) messagesKey(id string) string { return d.tag(id) + ":messages" }
func (d *driver) metaKey(id string) string     { return d.tag(id) + ":meta" }
func (d *driver) commitsKey(id string) string  { return d.tag(id) + ":commits" }
func (d *driver) tag(id string) string         { return d.opts.Prefix + "{" + escapeID.Replace(id) + "}" }

// indexKey returns the index of a folder, which ends in a slash, or of all.
func (d *driver) indexKey(folder string) string {
	if folder == "" {
		return d.opts.Prefix + "{}:all"
	}
	return d.tag(folder) + ":in"
}

// indexKeys returns the indexes that a session is in.
func (d *driver) indexKeys(id string) []string {
	if id[0] == 0 {
		return nil
	}
	keys := []string{d.indexKey("")}
	for i := range len(id) {
		if id[i] == '/' && len(keys) <= indexedFolders {
			keys = append(keys, d.indexKey(id[:i+1]))
		}
	}
	return keys
}

// folderOf returns the folder whose index has all sessions of a prefix.
func folderOf(prefix string) string {
	folder := ""
	for i, n := 0, 0; i < len(prefix) && n < indexedFolders; i++ {
		if prefix[i] == '/' {
			folder, n = prefix[:i+1], n+1
		}
	}
	return folder
}

//go:embed commit.lua
var commitSource string

var (
	commitScript = redis.NewScript(commitSource)

	// headScript and rangeScript read what a transaction would, which a full
	// server refuses to begin.
	headScript = redis.NewScript(`
local replies = {redis.pcall('GET', KEYS[1]), redis.pcall('GET', KEYS[2]), redis.pcall('LLEN', KEYS[3])}
for i = 1, 3 do
  if type(replies[i]) == 'table' then return replies[i] end
end
return replies`)
	rangeScript = redis.NewScript(`
local head, page = redis.pcall('GET', KEYS[1]), redis.pcall('LRANGE', KEYS[2], ARGV[1], ARGV[2])
if type(head) == 'table' then return head end
if page.err then return page end
return {head, page}`)

	// forgetScript takes a session from an index, unless it was put there anew.
	forgetScript = redis.NewScript(`if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('ZREM', KEYS[1], ARGV[1]) end return 0`)
)
