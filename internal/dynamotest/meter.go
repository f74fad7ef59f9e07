package dynamotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"sync"
)

// Meter is a transport that computes what calls cost, by DynamoDB's published
// rules, and not what a server for tests says, which differs. It looks at items
// before and after they are written, by calls of its own that cost nothing, so
// it is for one writer at a time. It also notes what DynamoDB would refuse
// although a server for tests may not: an item of more than 400 KB, a batch of
// more than 25 writes or 100 reads, a request of more than 16 MB.
type Meter struct {
	// Next is where calls go on.
	Next http.RoundTripper

	mu      sync.Mutex
	cost    Cost
	indexes map[string][]index // by table
	refused []string
}

// Cost is what calls cost.
type Cost struct {
	Writes      float64 // write units of the table
	IndexWrites float64 // write units of its indexes
	Reads       float64 // read units of table and indexes
	Requests    int
	Operations  map[string]int // Requests by operation
	Bytes       int            // the sizes of all items written
}

// index is a secondary index of which the projection is KEYS_ONLY.
type index struct {
	attributes []string // its keys and those of the table
	keys       []string
}

// Wrap sets Next, and returns m, as [Server.Client] wants it.
func (m *Meter) Wrap(next http.RoundTripper) http.RoundTripper {
	m.Next = next
	return m
}

// Take returns what was spent since the last Take.
func (m *Meter) Take() Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cost
	m.cost = Cost{}
	return c
}

// Refused returns what DynamoDB would have refused.
func (m *Meter) Refused() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.refused)
}

// request has the fields of all operations that count.
type request struct {
	TableName      string
	Key            item
	Item           item
	ConsistentRead bool
	IndexName      string
	RequestItems   map[string]json.RawMessage
}

// RoundTrip implements http.RoundTripper.
func (m *Meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	body, err := takeBody(req)
	if err != nil {
		return nil, err
	}
	operation := operationOf(req)
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	m.check(operation, in, len(body))
	finish, err := m.begin(req, operation, in, body)
	if err != nil {
		return nil, err
	}
	resp, err := m.Next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if m.cost.Operations == nil {
		m.cost.Operations = make(map[string]int)
	}
	m.cost.Requests++
	m.cost.Operations[operation]++
	if finish != nil {
		err = finish(resp.StatusCode == http.StatusOK)
	}
	return resp, err
}

// check notes what DynamoDB would refuse.
func (m *Meter) check(operation string, in request, size int) {
	refuse := func(format string, args ...any) {
		m.refused = append(m.refused, operation+": "+fmt.Sprintf(format, args...))
	}
	if size > 16<<20 {
		refuse("a request of %d bytes", size)
	}
	for _, raw := range in.RequestItems {
		n, most := 0, 25
		if operation == "BatchGetItem" {
			n, most = len(keysOf(raw).Keys), 100
		} else {
			for _, w := range writesOf(raw) {
				if n++; w.PutRequest != nil && sizeOf(w.PutRequest.Item) > maxItemSize {
					refuse("an item of %d bytes", sizeOf(w.PutRequest.Item))
				}
			}
		}
		if n > most || n == 0 {
			refuse("%d items", n)
		}
	}
}

// begin looks at what a call is going to change or read, and returns what to do
// after it.
func (m *Meter) begin(req *http.Request, operation string, in request, body []byte) (finish func(ok bool) error, err error) {
	switch operation {
	case "PutItem", "UpdateItem", "DeleteItem":
		key := in.Key
		if operation == "PutItem" {
			key = keyOf(in.Item)
		}
		return m.write(req, in.TableName, []item{key})
	case "BatchWriteItem":
		for table, raw := range in.RequestItems {
			var keys []item
			for _, w := range writesOf(raw) {
				if w.PutRequest != nil {
					keys = append(keys, keyOf(w.PutRequest.Item))
				} else {
					keys = append(keys, w.DeleteRequest.Key)
				}
			}
			return m.write(req, table, keys)
		}
	case "GetItem":
		i, err := m.get(req, in.TableName, in.Key)
		if err != nil {
			return nil, err
		}
		m.cost.Reads += units(sizeOf(i), readUnit) * share(in.ConsistentRead)
	case "BatchGetItem":
		for table, raw := range in.RequestItems {
			get := keysOf(raw)
			for _, key := range get.Keys {
				i, err := m.get(req, table, key)
				if err != nil {
					return nil, err
				}
				m.cost.Reads += units(sizeOf(i), readUnit) * share(get.ConsistentRead)
			}
		}
	case "Query":
		return nil, m.query(req, in, body)
	}
	return nil, nil
}

// write returns what adds up the cost of writes of items.
func (m *Meter) write(req *http.Request, table string, keys []item) (func(bool) error, error) {
	indexes, err := m.indexesOf(req, table)
	if err != nil {
		return nil, err
	}
	before := make([]item, len(keys))
	for n, key := range keys {
		if before[n], err = m.get(req, table, key); err != nil {
			return nil, err
		}
	}
	return func(ok bool) error {
		for n, key := range keys {
			after, err := m.get(req, table, key)
			if err != nil {
				return err
			}
			size := sizeOf(after)
			if size > maxItemSize {
				m.refused = append(m.refused, fmt.Sprintf("an item of %d bytes", size))
			}
			m.cost.Writes += units(max(size, sizeOf(before[n])), writeUnit)
			if !ok {
				continue // a condition that failed costs as much
			}
			m.cost.Bytes += size
			for _, i := range indexes {
				m.cost.IndexWrites += i.cost(before[n], after)
			}
		}
		return nil
	}, nil
}

// cost returns the write units of an index when an item changes.
func (i index) cost(before, after item) float64 {
	b, a := i.project(before), i.project(after)
	if reflect.DeepEqual(b, a) {
		return 0
	}
	cost := 0.0
	for _, entry := range []item{b, a} { // another key: one is removed and one put
		if entry != nil {
			cost += units(sizeOf(entry), writeUnit)
		}
	}
	return cost
}

// project returns the entry of an item, nil if it has none.
func (i index) project(of item) item {
	for _, k := range i.keys {
		if of[k] == nil {
			return nil
		}
	}
	entry := make(item)
	for _, a := range i.attributes {
		entry[a] = of[a]
	}
	return entry
}

// indexesOf asks once for the indexes of a table.
func (m *Meter) indexesOf(req *http.Request, table string) ([]index, error) {
	if all, known := m.indexes[table]; known {
		return all, nil
	}
	type schema []struct{ AttributeName string }
	var out struct {
		Table struct {
			KeySchema              schema
			GlobalSecondaryIndexes []struct{ KeySchema schema }
		}
	}
	if err := m.call(req, "DescribeTable", map[string]any{"TableName": table}, &out); err != nil {
		return nil, err
	}
	var all []index
	for _, g := range out.Table.GlobalSecondaryIndexes {
		var i index
		for _, k := range g.KeySchema {
			i.keys = append(i.keys, k.AttributeName)
		}
		i.attributes = slices.Clone(i.keys)
		for _, k := range out.Table.KeySchema {
			i.attributes = append(i.attributes, k.AttributeName)
		}
		all = append(all, i)
	}
	if m.indexes == nil {
		m.indexes = make(map[string][]index)
	}
	m.indexes[table] = all
	return all, nil
}

// query adds up the cost of a query: of all items that it looks at, whatever
// it filters or projects.
func (m *Meter) query(req *http.Request, in request, body []byte) error {
	var q map[string]any
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	delete(q, "ProjectionExpression")
	delete(q, "FilterExpression")
	delete(q, "Select")
	condition, _ := q["KeyConditionExpression"].(string)
	for _, field := range []string{"ExpressionAttributeNames", "ExpressionAttributeValues"} {
		all, _ := q[field].(map[string]any)
		maps.DeleteFunc(all, func(name string, _ any) bool { return !mentions(condition, name) })
		if len(all) == 0 {
			delete(q, field)
		}
	}
	var out struct{ Items []item }
	if err := m.call(req, "Query", q, &out); err != nil {
		return err
	}
	size := 0
	for _, i := range out.Items {
		size += sizeOf(i)
	}
	m.cost.Reads += units(size, readUnit) * share(in.ConsistentRead)
	return nil
}

// mentions reports whether an expression holds a name or value as a whole word.
func mentions(expression, name string) bool {
	return regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(expression)
}

// share is what a read costs in relation to a consistent one.
func share(consistent bool) float64 {
	if consistent {
		return 1
	}
	return 0.5
}

// get reads an item for the meter's own use.
func (m *Meter) get(req *http.Request, table string, key item) (item, error) {
	var out struct{ Item item }
	err := m.call(req, "GetItem", map[string]any{"TableName": table, "Key": key, "ConsistentRead": true}, &out)
	return out.Item, err
}

// call makes a call of the meter's own, like req but for operation and input.
// An error of the server leaves out as it is: req will meet it too.
func (m *Meter) call(req *http.Request, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	own := req.Clone(req.Context())
	own.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	setBody(own, body)
	resp, err := m.Next.RoundTrip(own)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return err
	}
	return json.NewDecoder(bytes.NewReader(answer)).Decode(out)
}

// keyOf returns the key of an item, which dynamostore's tables have under these
// names.
func keyOf(i item) item { return item{"pk": i["pk"], "sk": i["sk"]} }

type writeRequest struct {
	PutRequest    *struct{ Item item }
	DeleteRequest *struct{ Key item }
}

func writesOf(raw json.RawMessage) []writeRequest {
	var all []writeRequest
	_ = json.Unmarshal(raw, &all) // the server says what is wrong with it
	return all
}

type keysAndAttributes struct {
	Keys           []item
	ConsistentRead bool
}

func keysOf(raw json.RawMessage) keysAndAttributes {
	var k keysAndAttributes
	_ = json.Unmarshal(raw, &k)
	return k
}
