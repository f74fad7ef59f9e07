package session

import (
	"net/url"
	"strings"
)

// JoinID makes one session ID of several parts, such as a tenant, a user and a
// name, joined by slashes. Slashes and percent signs inside a part are escaped,
// so that different parts never make the same ID, and listing the prefix
// JoinID("user-1")+"/" shows that user's sessions and no others. The result is
// checked by the store, like any ID.
func JoinID(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = idEscaper.Replace(p)
	}
	return strings.Join(escaped, "/")
}

var idEscaper = strings.NewReplacer("%", "%25", "/", "%2F")

// SplitID takes apart what JoinID has joined. A percent sign that JoinID can't
// have written is left as it is.
func SplitID(id string) []string {
	parts := strings.Split(id, "/")
	for i, p := range parts {
		if u, err := url.PathUnescape(p); err == nil && idEscaper.Replace(u) == p {
			parts[i] = u
		}
	}
	return parts
}
