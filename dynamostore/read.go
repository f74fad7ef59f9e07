package dynamostore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/session"
)

// Range implements session.Driver.
func (d *driver) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st, known := d.cache.get(id)
	if !known || st.base != h.Base || st.rev == "" || st.count < to {
		var err error
		if st, _, err = d.readHead(ctx, id); err != nil {
			return nil, err
		}
		if st.base != h.Base || st.count < to {
			return nil, session.ErrConflict
		}
	}
	lines, sure, err := d.readLines(ctx, id, &st, from, to)
	if err != nil {
		return nil, err
	}
	if sure && !slices.ContainsFunc(lines, func(l []byte) bool { return l == nil }) {
		return lines, nil
	}
	// What is missing may have been dropped since, and then what is there may
	// be of a writer that lost.
	now, _, err := d.readHead(ctx, id)
	if err != nil {
		return nil, err
	}
	if now.base != h.Base {
		return nil, session.ErrConflict
	}
	return lines, nil
}

// readLines reads the messages from+1 to to of a history. One that is missing
// is nil. It is not sure if what it read is of this history only in case the
// session's base still is st's.
func (d *driver) readLines(ctx context.Context, id string, st *state, from, to int) (lines [][]byte, sure bool, err error) {
	lines = make([][]byte, to-from)
	segments, err := d.allSegments(ctx, id, st)
	if err != nil {
		return nil, false, err
	}
	sure, behind := true, 0 // the last position of the segment before
	for _, s := range segments {
		first, last := max(from, behind)+1, min(to, s.last)
		if first <= last {
			found, proved, err := d.chain(ctx, id, s, behind+1, first, last)
			if err != nil {
				return nil, false, err
			}
			sure = sure && proved
			for _, b := range found {
				b.copyLines(lines, from, first, last)
			}
		}
		behind = s.last
	}
	return lines, sure, nil
}

// copyLines puts a batch's messages at positions first to last into lines,
// which begin behind from.
func (b *located) copyLines(lines [][]byte, from, first, last int) {
	first, last = max(first, b.start), min(last, b.until)
	if first > last {
		return
	}
	for i, l := range b.lines() {
		if position := b.start + i; position >= first && position <= last {
			lines[position-from-1] = l
		}
	}
}

// allSegments returns the segments of a history, oldest first, with those that
// are in an item of their own.
func (d *driver) allSegments(ctx context.Context, id string, st *state) ([]segment, error) {
	if st.olderAt == "" {
		return st.segments(), nil
	}
	it, err := d.getItem(ctx, id, st.olderAt)
	if err != nil {
		return nil, err
	}
	if it == nil {
		return d.missingOlder(ctx, id, st)
	}
	older, err := decodeOlder(it)
	return append(older, st.segments()...), err
}

// missingOlder says whether the item that has older segments is missing because
// the history has been dropped.
func (d *driver) missingOlder(ctx context.Context, id string, st *state) ([]segment, error) {
	now, _, err := d.readHead(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case now.base != st.base:
		return nil, session.ErrConflict
	}
	return nil, fmt.Errorf("%w: the head names an item of older segments that is missing", session.ErrCorrupt)
}

// span is a part of a session's items.
type span struct {
	from, to   string   // sort keys, both included; both empty: all
	backward   bool     // greatest key first
	limit      int      // 0: none
	attributes []string // nil: all
}

// query reads items consistently, page by page.
func (d *driver) query(ctx context.Context, id string, s span) ([]item, error) {
	in := &dynamodb.QueryInput{
		TableName: &d.table, ConsistentRead: new(true), ScanIndexForward: new(!s.backward),
		KeyConditionExpression:    new("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK},
		ExpressionAttributeValues: item{":pk": str(d.pk(id))},
	}
	if s.to != "" {
		in.KeyConditionExpression = new("#pk = :pk AND #sk BETWEEN :from AND :to")
		in.ExpressionAttributeNames["#sk"] = attrSK
		in.ExpressionAttributeValues[":from"], in.ExpressionAttributeValues[":to"] = str(s.from), str(s.to)
	}
	if s.limit > 0 {
		in.Limit = aws.Int32(int32(s.limit))
	}
	if s.attributes != nil {
		names := make([]string, len(s.attributes))
		for i, a := range s.attributes {
			names[i] = "#" + a
			in.ExpressionAttributeNames[names[i]] = a
		}
		in.ProjectionExpression = new(strings.Join(names, ", "))
	}
	var all []item
	for {
		var out *dynamodb.QueryOutput
		err := d.retry(ctx, func(ctx context.Context) (err error) {
			out, err = d.client.Query(ctx, in, once)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, out.Items...)
		if len(out.LastEvaluatedKey) == 0 || s.limit > 0 && len(all) >= s.limit {
			return all, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
