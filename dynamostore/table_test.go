package dynamostore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
)

func TestCreateTable(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		client := s.Client()
		// Several processes at once, and again later.
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := dynamostore.CreateTable(t.Context(), client, "sessions", nil); err != nil {
					t.Errorf("CreateTable = %v", err)
				}
			})
		}
		wg.Wait()
		check(t, dynamostore.CreateTable(t.Context(), client, "sessions", &dynamostore.TableOptions{Tags: map[string]string{"a": "b"}}))
		out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("sessions")})
		check(t, err)
		for _, g := range out.Table.GlobalSecondaryIndexes {
			if g.Projection == nil || g.Projection.ProjectionType != types.ProjectionTypeKeysOnly {
				t.Errorf("index %s projects %+v, want KEYS_ONLY", aws.ToString(g.IndexName), g.Projection)
			}
		}
		if n := len(out.Table.GlobalSecondaryIndexes); n != 2 {
			t.Errorf("%d indexes, want 2", n)
		}
		if s.Embedded {
			ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("sessions")})
			check(t, err)
			if d := ttl.TimeToLiveDescription; d.TimeToLiveStatus != types.TimeToLiveStatusEnabled || aws.ToString(d.AttributeName) != "ttl" {
				t.Errorf("time to live is %s of %q, want it enabled for ttl", d.TimeToLiveStatus, aws.ToString(d.AttributeName))
			}
		}
		store, err := dynamostore.New(client, "sessions", nil)
		check(t, err)
		add(t, store, "a/b", "x")
		check(t, store.Close())
	})
}

// otherTables are tables that are no Store's, and what an error says of them.
var otherTables = map[string]struct {
	change func(*dynamodb.CreateTableInput)
	says   string
}{
	"OtherKeys": {func(in *dynamodb.CreateTableInput) {
		in.AttributeDefinitions = attributes("id")
		in.KeySchema = in.KeySchema[:1]
		in.KeySchema[0].AttributeName = aws.String("id")
		in.GlobalSecondaryIndexes = nil
	}, "its key is id"},
	"NoSortKey": {func(in *dynamodb.CreateTableInput) {
		in.AttributeDefinitions = attributes("pk", "ap", "fp", "lk")
		in.KeySchema = in.KeySchema[:1]
	}, "its key is pk, want pk and sk"},
	"NoIndexes": {func(in *dynamodb.CreateTableInput) {
		in.AttributeDefinitions = attributes("pk", "sk")
		in.GlobalSecondaryIndexes = nil
	}, "by-recency"},
	"OneIndex": {func(in *dynamodb.CreateTableInput) {
		in.AttributeDefinitions = attributes("pk", "sk", "ap", "lk")
		in.GlobalSecondaryIndexes = in.GlobalSecondaryIndexes[:1]
	}, "by-folder"},
	"OtherIndexKey": {func(in *dynamodb.CreateTableInput) {
		in.GlobalSecondaryIndexes[0].KeySchema[1].AttributeName = aws.String("fp")
	}, "by-recency"},
}

func attributes(names ...string) []types.AttributeDefinition {
	var all []types.AttributeDefinition
	for _, n := range names {
		all = append(all, types.AttributeDefinition{AttributeName: aws.String(n), AttributeType: types.ScalarAttributeTypeS})
	}
	return all
}

// createOther returns a function that creates another table than CreateTable's.
func createOther(change func(*dynamodb.CreateTableInput)) func(context.Context, *dynamodb.Client, string) error {
	return func(ctx context.Context, client *dynamodb.Client, table string) error {
		pair := func(partition, sort string) []types.KeySchemaElement {
			return []types.KeySchemaElement{
				{AttributeName: &partition, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange},
			}
		}
		index := func(name, partition string) types.GlobalSecondaryIndex {
			return types.GlobalSecondaryIndex{IndexName: &name, KeySchema: pair(partition, "lk"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}}
		}
		in := &dynamodb.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest, KeySchema: pair("pk", "sk"),
			AttributeDefinitions:   attributes("pk", "sk", "ap", "fp", "lk"),
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{index("by-recency", "ap"), index("by-folder", "fp")},
		}
		change(in)
		_, err := client.CreateTable(ctx, in)
		return err
	}
}

func TestCreateTableWhereAnotherIs(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		for name, other := range otherTables {
			table := s.Table(t, createOther(other.change))
			err := dynamostore.CreateTable(t.Context(), s.Client(), table, nil)
			if !errors.Is(err, dynamostore.ErrTable) || !strings.Contains(err.Error(), other.says) {
				t.Errorf("%s: CreateTable = %v, want ErrTable that says %q", name, err, other.says)
			}
		}
	})
}

// slowTable answers like a DynamoDB that takes its time.
type slowTable struct {
	dynamostore.TableAPI
	states []types.TableStatus // of the calls to come; the last one stays
	ttl    types.TimeToLiveDescription
	calls  []string
}

func (s *slowTable) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := s.TableAPI.DescribeTable(ctx, in, o...)
	if err != nil {
		return nil, err
	}
	out.Table.TableStatus = s.states[0]
	s.calls = append(s.calls, string(s.states[0]))
	if len(s.states) > 1 {
		s.states = s.states[1:]
	}
	return out, nil
}

func (s *slowTable) DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: &s.ttl}, nil
}

func TestCreateTableWaits(t *testing.T) {
	s := dynamotest.Minidyn()
	slow := &slowTable{TableAPI: s.Client(), states: []types.TableStatus{types.TableStatusCreating, types.TableStatusCreating, types.TableStatusActive}}
	check(t, dynamostore.CreateTable(t.Context(), slow, "sessions", nil))
	if got := strings.Join(slow.calls, " "); got != "CREATING CREATING ACTIVE" {
		t.Errorf("CreateTable looked at %s, want it to wait for ACTIVE", got)
	}
	slow.states = []types.TableStatus{types.TableStatusCreating}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := dynamostore.CreateTable(ctx, slow, "sessions", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("CreateTable that never becomes active = %v, want the context's error", err)
	}
	slow.states = []types.TableStatus{types.TableStatusActive}
	slow.ttl = types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusEnabled, AttributeName: aws.String("expireAt")}
	if err := dynamostore.CreateTable(t.Context(), slow, "sessions", nil); !errors.Is(err, dynamostore.ErrTable) || !strings.Contains(err.Error(), "expireAt") {
		t.Errorf("CreateTable with another attribute's time to live = %v, want ErrTable that names it", err)
	}
	for _, table := range []string{"", "x"} {
		var client dynamostore.TableAPI
		if table == "" {
			client = slow
		}
		if err := dynamostore.CreateTable(t.Context(), client, table, nil); !errors.Is(err, session.ErrInvalidOption) {
			t.Errorf("CreateTable(%v, %q) = %v, want ErrInvalidOption", client, table, err)
		}
	}
}
