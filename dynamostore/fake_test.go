package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// fake is a DynamoDB in memory, with one table. It knows the expressions that
// this package writes and refuses all others. Reads are consistent, indexes
// always current, pages small. before is called before each request takes
// effect, without the lock, and decides what becomes of it.
type fake struct {
	before func(ctx context.Context, request string, apply func()) error

	mu       sync.Mutex
	items    map[string]item // by partition and sort key
	pageSize int             // bytes a page of a Query
	oldItems bool            // whether a failed condition returns the item
	changed  func(old, now item, by string)
	accept   func(n int) int // how many of n writes of a batch are processed; nil: all
}

func newFake() *fake {
	return &fake{items: make(map[string]item), pageSize: 4 << 10}
}

// errServer is of a request that may have been carried out.
var errServer = &types.InternalServerError{Message: new("injected")}

func invalid(format string, args ...any) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

// call runs a request, or what before makes of it. A request that comes late
// returns nothing to anybody.
func call[T any](f *fake, ctx context.Context, request string, run func() (*T, error)) (*T, error) {
	var out *T
	var err error
	apply := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		out, err = run()
	}
	if f.before == nil {
		apply()
		return out, err
	}
	if failed := f.before(ctx, request, apply); failed != nil {
		return nil, failed
	}
	return out, err
}

func textOf(it item, name string) string {
	f := fields{item: it}
	return f.optStr(name)
}

func keyOf(it item) string { return textOf(it, attrPK) + "\x00\x00" + textOf(it, attrSK) }

// set replaces an item, or removes it if now is nil.
func (f *fake) set(key string, now item, by string) {
	old := f.items[key]
	if now == nil {
		delete(f.items, key)
	} else {
		f.items[key] = now
	}
	if f.changed != nil {
		f.changed(old, now, by)
	}
}

func checkKey(key item) error {
	if len(key) != 2 || textOf(key, attrPK) == "" || textOf(key, attrSK) == "" {
		return invalid("a bad key")
	}
	return nil
}

func checkItem(it item) error {
	if n := sizeOf(it); n > maxItemBytes {
		return invalid("an item of %d bytes", n)
	}
	for _, name := range []string{attrPK, attrSK, attrAP, attrFP, attrLK} {
		if v, ok := it[name]; ok && textOf(it, name) == "" {
			return invalid("key attribute %s is %v", name, v)
		}
	}
	return checkKey(item{attrPK: it[attrPK], attrSK: it[attrSK]})
}

var (
	existence = regexp.MustCompile(`^attribute_(not_)?exists\((#\w+)\)$`)
	equality  = regexp.MustCompile(`^(#\w+) = (:\w+)$`)
	keyRange  = regexp.MustCompile(`^(#\w+) = (:\w+) AND (#\w+) BETWEEN (:\w+) AND (:\w+)$`)
	updating  = regexp.MustCompile(`^(?:SET (#\w+) = (:\w+) ?)?(?:REMOVE (#\w+))?$`)
)

// expressions are the names and values of a request. All must be used.
type expressions struct {
	names  map[string]string
	values item
	used   map[string]bool
	bad    bool
}

func (e *expressions) name(placeholder string) string {
	name, ok := e.names[placeholder]
	e.use(placeholder, ok)
	return name
}

func (e *expressions) value(placeholder string) types.AttributeValue {
	v, ok := e.values[placeholder]
	e.use(placeholder, ok)
	return v
}

func (e *expressions) use(placeholder string, ok bool) {
	e.bad = e.bad || !ok
	if e.used == nil {
		e.used = make(map[string]bool)
	}
	e.used[placeholder] = true
}

func (e *expressions) check() error {
	if e.bad || len(e.used) != len(e.names)+len(e.values) {
		return invalid("names and values that are not used, or not there")
	}
	return nil
}

func equal(a, b types.AttributeValue) bool {
	x, y := item{"": a}, item{"": b}
	return textOf(x, "") == textOf(y, "") && textOf(x, "") != ""
}

func (e *expressions) holds(condition string, it item) (bool, error) {
	if m := existence.FindStringSubmatch(condition); m != nil {
		_, exists := it[e.name(m[2])]
		return exists == (m[1] == ""), nil
	}
	if m := equality.FindStringSubmatch(condition); m != nil {
		return equal(it[e.name(m[1])], e.value(m[2])), nil
	}
	return false, invalid("condition %q", condition)
}

func (f *fake) failed(old item, want types.ReturnValuesOnConditionCheckFailure) error {
	err := &types.ConditionalCheckFailedException{Message: new("condition")}
	if f.oldItems && want == types.ReturnValuesOnConditionCheckFailureAllOld {
		err.Item = maps.Clone(old)
	}
	return err
}

func (f *fake) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return call(f, ctx, "GetItem", func() (*dynamodb.GetItemOutput, error) {
		if !aws.ToBool(in.ConsistentRead) {
			return nil, invalid("a GetItem that is not consistent")
		}
		return &dynamodb.GetItemOutput{Item: maps.Clone(f.items[keyOf(in.Key)])}, checkKey(in.Key)
	})
}

func (f *fake) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	now := maps.Clone(in.Item)
	return call(f, ctx, "PutItem", func() (*dynamodb.PutItemOutput, error) {
		if err := checkItem(now); err != nil {
			return nil, err
		}
		old := f.items[keyOf(now)]
		if in.ConditionExpression != nil {
			e := expressions{names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues}
			ok, err := e.holds(*in.ConditionExpression, old)
			if err := errors.Join(err, e.check()); err != nil {
				return nil, err
			}
			if !ok {
				return nil, f.failed(old, in.ReturnValuesOnConditionCheckFailure)
			}
		}
		f.set(keyOf(now), now, "PutItem")
		return &dynamodb.PutItemOutput{}, nil
	})
}

func (f *fake) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return call(f, ctx, "UpdateItem", func() (*dynamodb.UpdateItemOutput, error) {
		old := f.items[keyOf(in.Key)]
		now := maps.Clone(old)
		if now == nil {
			now = maps.Clone(in.Key)
		}
		e := expressions{names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues}
		ok, err := e.holds(aws.ToString(in.ConditionExpression), old)
		m := updating.FindStringSubmatch(*in.UpdateExpression)
		if m == nil {
			return nil, invalid("update %q", *in.UpdateExpression)
		}
		if m[1] != "" {
			now[e.name(m[1])] = e.value(m[2])
		}
		if m[3] != "" {
			delete(now, e.name(m[3]))
		}
		if err := errors.Join(err, e.check(), checkItem(now)); err != nil {
			return nil, err
		}
		if !ok {
			return nil, f.failed(old, in.ReturnValuesOnConditionCheckFailure)
		}
		f.set(keyOf(now), now, "UpdateItem")
		return &dynamodb.UpdateItemOutput{}, nil
	})
}

func (f *fake) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	requests := slices.Clone(flatten(in.RequestItems))
	for i, r := range requests {
		if r.PutRequest != nil {
			requests[i].PutRequest = &types.PutRequest{Item: maps.Clone(r.PutRequest.Item)}
		}
	}
	return call(f, ctx, "BatchWriteItem", func() (*dynamodb.BatchWriteItemOutput, error) {
		seen := make(map[string]bool)
		for _, r := range requests {
			key, err := item(nil), error(nil)
			if r.PutRequest != nil {
				key, err = r.PutRequest.Item, checkItem(r.PutRequest.Item)
			} else {
				key, err = r.DeleteRequest.Key, checkKey(r.DeleteRequest.Key)
			}
			if err != nil || seen[keyOf(key)] {
				return nil, invalid("item %q: %v", keyOf(key), err)
			}
			seen[keyOf(key)] = true
		}
		if n := len(requests); n < 1 || n > 25 {
			return nil, invalid("%d items", n)
		}
		out, n := &dynamodb.BatchWriteItemOutput{}, len(requests)
		if f.accept != nil {
			n = f.accept(n)
		}
		if n < len(requests) {
			out.UnprocessedItems = map[string][]types.WriteRequest{"": requests[n:]}
		}
		for _, r := range requests[:n] {
			if r.PutRequest != nil {
				f.set(keyOf(r.PutRequest.Item), r.PutRequest.Item, "BatchWriteItem")
			} else {
				f.set(keyOf(r.DeleteRequest.Key), nil, "BatchWriteItem")
			}
		}
		return out, nil
	})
}

func (f *fake) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return call(f, ctx, "BatchGetItem", func() (*dynamodb.BatchGetItemOutput, error) {
		out := &dynamodb.BatchGetItemOutput{Responses: make(map[string][]item)}
		for table, get := range in.RequestItems {
			if n := len(get.Keys); n < 1 || n > 100 {
				return nil, invalid("%d items", n)
			}
			seen := make(map[string]bool)
			for _, key := range get.Keys {
				if seen[keyOf(key)] {
					return nil, invalid("keys that contain duplicates")
				}
				seen[keyOf(key)] = true
				if it := f.items[keyOf(key)]; it != nil {
					out.Responses[table] = append(out.Responses[table], maps.Clone(it))
				}
			}
		}
		return out, nil
	})
}

func (f *fake) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return call(f, ctx, "Query", func() (*dynamodb.QueryOutput, error) { return f.query(in) })
}

func (f *fake) query(in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	if in.IndexName == nil && !aws.ToBool(in.ConsistentRead) {
		return nil, invalid("a Query of the table that is not consistent")
	}
	e := expressions{names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues}
	hash, sort, match := "", attrSK, func(item) bool { return false }
	if m := keyRange.FindStringSubmatch(*in.KeyConditionExpression); m != nil {
		hash, sort = e.name(m[1]), e.name(m[3])
		value, bounds := e.value(m[2]), item{"from": e.value(m[4]), "to": e.value(m[5])}
		if textOf(bounds, "from") > textOf(bounds, "to") {
			return nil, invalid("BETWEEN an upper and a lower bound")
		}
		match = func(it item) bool {
			return equal(it[hash], value) && textOf(it, sort) >= textOf(bounds, "from") && textOf(it, sort) <= textOf(bounds, "to")
		}
	} else if m := equality.FindStringSubmatch(*in.KeyConditionExpression); m != nil {
		hash = e.name(m[1])
		value := e.value(m[2])
		match = func(it item) bool { return equal(it[hash], value) }
	}
	var attributes []string
	for _, a := range strings.Split(aws.ToString(in.ProjectionExpression), ", ") {
		if a != "" {
			attributes = append(attributes, e.name(a))
		}
	}
	if in.IndexName != nil {
		attributes = []string{attrPK, attrSK, hash, sort}
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return f.page(in, sort, match, attributes), nil
}

// orderOf is what items are sorted by.
func orderOf(it item, sort string) string { return textOf(it, sort) + "\x00\x00" + keyOf(it) }

// page returns the items behind the start key that fit into a page.
func (f *fake) page(in *dynamodb.QueryInput, sort string, match func(item) bool, attributes []string) *dynamodb.QueryOutput {
	forward := in.ScanIndexForward == nil || *in.ScanIndexForward
	start := ""
	if in.ExclusiveStartKey != nil {
		start = orderOf(in.ExclusiveStartKey, sort)
	}
	found := make(map[string]item)
	for _, it := range f.items {
		if match(it) {
			if order := orderOf(it, sort); start == "" || order != start && (order > start) == forward {
				found[order] = it
			}
		}
	}
	orders := slices.Sorted(maps.Keys(found))
	if !forward {
		slices.Reverse(orders)
	}
	out, size := &dynamodb.QueryOutput{}, 0
	for _, order := range orders {
		it := found[order]
		if size += sizeOf(it); len(out.Items) > 0 && size > f.pageSize || in.Limit != nil && len(out.Items) == int(*in.Limit) {
			break
		}
		shown := maps.Clone(it)
		if attributes != nil {
			maps.DeleteFunc(shown, func(name string, _ types.AttributeValue) bool { return !slices.Contains(attributes, name) })
		}
		out.Items = append(out.Items, shown)
		out.LastEvaluatedKey = item{attrPK: it[attrPK], attrSK: it[attrSK], sort: it[sort]}
	}
	if len(out.Items) == len(found) && (in.Limit == nil || len(out.Items) < int(*in.Limit)) {
		out.LastEvaluatedKey = nil
	}
	return out
}

func (f *fake) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return nil, errServer
}
