package dynamotest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/holdfast-go/session/internal/dynamotest"
)

// create makes a table with an index, as DynamoDB wants it.
func create(ctx context.Context, client *dynamodb.Client, table string) error {
	var attributes []types.AttributeDefinition
	for _, a := range []string{"pk", "sk", "ip", "ik"} {
		attributes = append(attributes, types.AttributeDefinition{AttributeName: aws.String(a), AttributeType: types.ScalarAttributeTypeS})
	}
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: attributes, KeySchema: schema("pk", "sk"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("index"), KeySchema: schema("ip", "ik"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	return err
}

func schema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func key(sk string) item { return item{"pk": text("p"), "sk": text(sk)} }

func put(sk string, more item) item {
	i := key(sk)
	for k, v := range more {
		i[k] = v
	}
	return i
}

// once is a client without retries.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

func TestFaults(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		table := s.Table(t, create)
		for _, test := range []struct {
			fault   dynamotest.Fault
			code    string // of the error; "": none of DynamoDB's
			written bool
		}{
			{dynamotest.NotSent, "", false},
			{dynamotest.ReplyLost, "", true},
			{dynamotest.Throughput, "ProvisionedThroughputExceededException", false},
			{dynamotest.Throttling, "ThrottlingException", false},
			{dynamotest.ServerError, "InternalServerError", false},
			{dynamotest.ServerErrorDone, "InternalServerError", true},
		} {
			faults := &dynamotest.Faults{Choose: func(c dynamotest.Call) dynamotest.Fault {
				if c.Operation == "PutItem" {
					return test.fault
				}
				return dynamotest.None
			}}
			client := s.Client(faults.Wrap)
			_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: key(test.fault.String())}, once)
			var api smithy.APIError
			code := ""
			if errors.As(err, &api) {
				code = api.ErrorCode()
			}
			if err == nil || code != test.code {
				t.Errorf("%v: PutItem = %v, want an error with code %q", test.fault, err, test.code)
			}
			out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key(test.fault.String())})
			if err != nil {
				t.Fatal(err)
			}
			if written := len(out.Item) > 0; written != test.written {
				t.Errorf("%v: written = %v, want %v", test.fault, written, test.written)
			}
			if n := faults.Count(test.fault); n != 1 || faults.Calls("PutItem") != 1 || faults.Calls("") != 2 {
				t.Errorf("%v: counted %d, calls %d and %d, want 1, 1 and 2", test.fault, n, faults.Calls("PutItem"), faults.Calls(""))
			}
		}
	})
}

func TestPartialBatches(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		table := s.Table(t, create)
		faults := &dynamotest.Faults{Choose: func(dynamotest.Call) dynamotest.Fault { return dynamotest.Partial }}
		client := s.Client(faults.Wrap)
		for _, n := range []int{1, 2, 5} {
			writes := make([]types.WriteRequest, n)
			keys := make([]item, n)
			for i := range writes {
				keys[i] = key(fmt.Sprint(n, "-", i))
				writes[i].PutRequest = &types.PutRequest{Item: keys[i]}
			}
			wrote, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: writes}})
			if err != nil {
				t.Fatal(err)
			}
			if left := len(wrote.UnprocessedItems[table]); left != n-n/2 {
				t.Errorf("%d writes: %d unprocessed, want %d", n, left, n-n/2)
			}
			read, err := s.Client().BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: keys}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(read.Responses[table]); got != n/2 {
				t.Errorf("%d writes: %d items, want %d", n, got, n/2)
			}
			read, err = client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				table: {Keys: keys, ConsistentRead: aws.Bool(true)},
			}})
			if err != nil {
				t.Fatal(err)
			}
			left := read.UnprocessedKeys[table]
			if len(left.Keys) != n-n/2 || !aws.ToBool(left.ConsistentRead) {
				t.Errorf("%d reads: %d unprocessed, consistent %v, want %d and true", n, len(left.Keys), aws.ToBool(left.ConsistentRead), n-n/2)
			}
		}
	})
}

// The costs are what DynamoDB's documentation says of these calls.
func TestMeter(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		table := s.Table(t, create)
		meter := &dynamotest.Meter{}
		client := s.Client(meter.Wrap)
		check := func(what string, err error, want dynamotest.Cost) {
			t.Helper()
			got := meter.Take()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got.Writes != want.Writes || got.IndexWrites != want.IndexWrites || got.Reads != want.Reads {
				t.Errorf("%s: %v write, %v index write and %v read units, want %v, %v and %v", what,
					got.Writes, got.IndexWrites, got.Reads, want.Writes, want.IndexWrites, want.Reads)
			}
		}
		ctx := t.Context()
		indexed := item{"ip": text("i"), "ik": text("1"), "data": text(strings.Repeat("x", 1500))}
		_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: put("a", indexed)})
		check("PutItem of 1.5 KB, indexed", err, dynamotest.Cost{Writes: 2, IndexWrites: 1})
		update := func(expression, value string) error {
			_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: &table, Key: key("a"), UpdateExpression: &expression,
				ExpressionAttributeNames:  map[string]string{"#d": "data"},
				ExpressionAttributeValues: item{":v": text(value)},
			})
			return err
		}
		check("UpdateItem that makes it smaller", update("SET #d = :v", "x"), dynamotest.Cost{Writes: 2})
		_, err = client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &table, Key: key("a"), UpdateExpression: aws.String("SET ik = :v"), ExpressionAttributeValues: item{":v": text("2")},
		})
		check("UpdateItem of an index key", err, dynamotest.Cost{Writes: 1, IndexWrites: 2})
		_, err = client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: put("b", item{"data": text(strings.Repeat("x", 5000))})})
		check("PutItem of 5 KB", err, dynamotest.Cost{Writes: 5})
		_, err = client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key("b"), ConsistentRead: aws.Bool(true)})
		check("GetItem, consistent", err, dynamotest.Cost{Reads: 2})
		_, err = client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key("none")})
		check("GetItem of nothing", err, dynamotest.Cost{Reads: 0.5})
		_, err = client.Query(ctx, &dynamodb.QueryInput{
			TableName: &table, KeyConditionExpression: aws.String("pk = :p"), ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("sk, #d"),
			ExpressionAttributeNames: map[string]string{"#d": "data"}, ExpressionAttributeValues: item{":p": text("p")},
		})
		check("Query of all, projected", err, dynamotest.Cost{Reads: 2})
		_, err = client.Query(ctx, &dynamodb.QueryInput{
			TableName: &table, IndexName: aws.String("index"), KeyConditionExpression: aws.String("ip = :p"), ExpressionAttributeValues: item{":p": text("i")},
		})
		check("Query of the index", err, dynamotest.Cost{Reads: 0.5})
		_, err = client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: []item{key("a"), key("b")}}}})
		check("BatchGetItem", err, dynamotest.Cost{Reads: 1.5})
		_, err = client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: {
			{DeleteRequest: &types.DeleteRequest{Key: key("a")}}, {PutRequest: &types.PutRequest{Item: key("c")}},
		}}})
		check("BatchWriteItem that deletes and puts", err, dynamotest.Cost{Writes: 2, IndexWrites: 1})
		if refused := meter.Refused(); len(refused) > 0 {
			t.Errorf("Refused = %q, want nothing", refused)
		}
		_, _ = client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: put("d", item{"data": text(strings.Repeat("x", 400<<10))})})
		if refused := meter.Refused(); s.Embedded && len(refused) != 1 {
			t.Errorf("Refused = %q, want one", refused)
		}
	})
}

// The units of the meter are those that the server reports, as far as that
// counts right: all text is ASCII here.
func TestMeterAgreesWithTheServer(t *testing.T) {
	s := dynamotest.Start(t)
	table := s.Table(t, create)
	meter := &dynamotest.Meter{}
	client := s.Client(meter.Wrap)
	for n := range 40 {
		i := put(fmt.Sprint(n), item{
			"data": text(strings.Repeat("x", n*211)), "n": &types.AttributeValueMemberN{Value: fmt.Sprint(n * 37)},
			"b": &types.AttributeValueMemberB{Value: make([]byte, n)}, "t": &types.AttributeValueMemberBOOL{Value: true},
		})
		out, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: i, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := meter.Take().Writes, aws.ToFloat64(out.ConsumedCapacity.Table.CapacityUnits); got != want {
			t.Errorf("item %d: %v write units, the server says %v", n, got, want)
		}
		query, err := client.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &table, KeyConditionExpression: aws.String("pk = :p"), ConsistentRead: aws.Bool(true),
			ExpressionAttributeValues: item{":p": text("p")}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := meter.Take().Reads, aws.ToFloat64(query.ConsumedCapacity.CapacityUnits); got != want {
			t.Errorf("%d items: %v read units, the server says %v", n+1, got, want)
		}
	}
}

var _ http.RoundTripper = (*dynamotest.Faults)(nil)
var _ http.RoundTripper = (*dynamotest.Meter)(nil)

func TestMinidynWithAContextThatIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dynamotest.Minidyn().Client().ListTables(ctx, &dynamodb.ListTablesInput{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a call with a context that is done = %v, want context.Canceled", err)
	}
}
