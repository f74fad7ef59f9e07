package dynamostore_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
	"github.com/holdfast-go/session/storetest"
)

// everyCall makes a call of each method that asks the table, and returns their
// errors.
func everyCall(t *testing.T, s session.Backend) map[string]error {
	t.Helper()
	ctx := t.Context()
	errs := make(map[string]error)
	_, errs["Load"] = s.Load(ctx, "a/b")
	_, errs["Read"] = s.Read(ctx, "a/b", &session.ReadOptions{Last: 1})
	_, errs["Info"] = s.Info(ctx, "a/b")
	_, errs["Append"] = s.Append(ctx, "a/b", user("x"), nil)
	errs["Save"] = s.Save(ctx, "a/b", user("x"))
	_, errs["Truncate"] = s.Truncate(ctx, "a/b", 0, nil)
	_, errs["Update"] = s.Update(ctx, "a/b", func(*session.Meta) error { return nil })
	errs["Delete"] = s.Delete(ctx, "a/b", nil)
	_, errs["Lock"] = s.Lock(ctx, "a/b", &session.LockOptions{NoWait: true})
	for name, opts := range map[string]*session.ListOptions{"List": nil, "List of a folder": {Prefix: "a/"}} {
		for _, err := range s.List(ctx, opts) {
			errs[name] = err
		}
		if errs[name] == nil {
			errs[name] = errors.New("nothing, and no error")
		}
	}
	return errs
}

// wantEvery reports a call without an error of a kind that says something.
func wantEvery(t *testing.T, s session.Backend, kind error, says string) {
	t.Helper()
	for call, err := range everyCall(t, s) {
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s = %v, want %q that says %q", call, err, kind, says)
		}
		var op *session.Error
		if !errors.As(err, &op) {
			t.Errorf("%s = %T, want a *session.Error", call, err)
		}
	}
}

func newStore(t *testing.T, client dynamostore.API, table string, opts *dynamostore.Options) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.New(client, table, opts)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestMissingTable(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		wantEvery(t, newStore(t, s.Client(), "nowhere", nil), dynamostore.ErrTable, "CreateTable")
	})
}

func TestOtherTable(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		table := s.Table(t, createOther(otherTables["OtherKeys"].change))
		wantEvery(t, newStore(t, s.Client(), table, nil), dynamostore.ErrTable, "its key is id")
	})
}

// Without its indexes all of a store works but List.
func TestTableWithoutIndexes(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		store := newStore(t, s.Client(), s.Table(t, createOther(otherTables["NoIndexes"].change)), nil)
		add(t, store, "a/b", "x")
		for _, opts := range []*session.ListOptions{nil, {Prefix: "a/"}} {
			n := 0
			for _, err := range store.List(t.Context(), opts) {
				if n++; !errors.Is(err, dynamostore.ErrTable) || !strings.Contains(err.Error(), "by-recency") {
					t.Errorf("List without indexes = %v, want ErrTable that names one", err)
				}
			}
			if n != 1 {
				t.Errorf("List without indexes yields %d times, want one error", n)
			}
		}
	})
}

func TestRefusedCredentials(t *testing.T) {
	for code, says := range map[string]string{
		"ExpiredTokenException":       "expired",
		"UnrecognizedClientException": "not accepted",
		"InvalidSignatureException":   "not accepted",
		"AccessDeniedException":       "policy",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`{"__type":"com.amazon.coral.service#` + code + `","message":"the canonical string was: TOKEN"}`))
		}))
		defer server.Close()
		client := dynamodb.New(dynamodb.Options{
			Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "TOKEN"),
		})
		store := newStore(t, client, "sessions", nil)
		wantEvery(t, store, dynamostore.ErrAccess, says)
		for call, err := range everyCall(t, store) {
			if strings.Contains(err.Error(), "TOKEN") {
				t.Errorf("%s = %v, which shows a token", call, err)
			}
		}
	}
}

func TestWrongPlace(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	keys := credentials.NewStaticCredentialsProvider("key", "secret", "")
	opts := &dynamostore.Options{RetryTime: 50 * time.Millisecond, RequestTimeout: 10 * time.Second}
	for name, o := range map[string]dynamodb.Options{
		"no region":      {Credentials: keys},
		"no credentials": {Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("", "", "")},
		"nobody there":   {Region: "eu-central-1", Credentials: keys, BaseEndpoint: aws.String("http://127.0.0.1:1")},
		"a web server":   {Region: "eu-central-1", Credentials: keys, BaseEndpoint: &web.URL},
		"no such host":   {Region: "eu-central-1", Credentials: keys, BaseEndpoint: aws.String("http://nowhere.invalid")},
	} {
		t.Run(strings.ReplaceAll(name, " ", ""), func(t *testing.T) {
			wantEvery(t, newStore(t, dynamodb.New(o), "sessions", opts), dynamostore.ErrAccess, `"sessions"`)
		})
	}
}

// change edits an item of a session as a hand would.
func change(t *testing.T, client *dynamodb.Client, table, pk, sk, attribute string, to types.AttributeValue) {
	t.Helper()
	key := map[string]types.AttributeValue{"pk": text(pk), "sk": text(sk)}
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	check(t, err)
	if delete(out.Item, attribute); to != nil {
		out.Item[attribute] = to
	}
	_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: out.Item})
	check(t, err)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

// sortKeys returns the sort keys of a session's items, in order.
func sortKeys(t testing.TB, client *dynamodb.Client, table, pk string) []string {
	t.Helper()
	keys := []string{}
	for _, i := range itemsOf(t, client, table, pk) {
		keys = append(keys, i["sk"].(*types.AttributeValueMemberS).Value)
	}
	return keys
}

func itemsOf(t testing.TB, client *dynamodb.Client, table, pk string) (items []map[string]types.AttributeValue) {
	t.Helper()
	pages := dynamodb.NewQueryPaginator(client, &dynamodb.QueryInput{
		TableName: &table, KeyConditionExpression: aws.String("pk = :p"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text(pk)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		check(t, err)
		items = append(items, page.Items...)
	}
	return items
}

func TestItemsChangedByHand(t *testing.T) {
	for name, test := range map[string]struct {
		item      string // what its sort key begins with
		attribute string
		to        types.AttributeValue // nil: it is removed
		want      error
	}{
		"NewerFormat":     {"h", "v", number("99"), session.ErrNewerFormat},
		"CountMissing":    {"h", "c", nil, session.ErrCorrupt},
		"CountIsText":     {"h", "c", text("2"), session.ErrCorrupt},
		"CountTooLarge":   {"h", "c", number("3"), session.ErrCorrupt},
		"CountNegative":   {"h", "c", number("-1"), session.ErrCorrupt},
		"LastMissing":     {"h", "l", nil, session.ErrCorrupt},
		"LastIsNothing":   {"h", "l", text("b"), session.ErrCorrupt},
		"LastIsAnother":   {"h", "l", text("bx/0000000001/y"), session.ErrCorrupt},
		"UpdatedIsText":   {"h", "u", text("now"), session.ErrCorrupt},
		"RecordMissing":   {"h", "x", nil, session.ErrCorrupt},
		"RecordOther":     {"h", "x", &types.AttributeValueMemberB{Value: []byte{1, 2, 3}}, session.ErrCorrupt},
		"RecordNewer":     {"h", "x", &types.AttributeValueMemberB{Value: []byte{200}}, session.ErrNewerFormat},
		"SegmentsOther":   {"h", "s", text("?"), session.ErrCorrupt},
		"MetaItemMissing": {"h", "mk", text("m000000000001/x"), session.ErrCorrupt},
		"DataMissing":     {"b", "d", nil, session.ErrCorrupt},
		"DataIsText":      {"b", "d", text("x"), session.ErrCorrupt},
		"DataOther":       {"b", "d", &types.AttributeValueMemberB{Value: []byte("x")}, session.ErrCorrupt},
		"NumberOther":     {"b", "n", number("7"), session.ErrCorrupt},
		"NumberMissing":   {"b", "n", nil, session.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			f := &tables{server: dynamotest.Minidyn()}
			table := f.server.Table(t, createTable)
			client := f.server.Client()
			add(t, f.in(t, table), "s", "first words", "more")
			for _, sk := range sortKeys(t, client, table, ":s") {
				if strings.HasPrefix(sk, test.item) {
					change(t, client, table, ":s", sk, test.attribute, test.to)
				}
			}
			_, err := f.in(t, table).Load(t.Context(), "s")
			if !errors.Is(err, test.want) {
				t.Errorf("Load = %v, want %v", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "words") {
				t.Errorf("Load = %v, which shows a message", err)
			}
		})
	}
}

// Part of a history is still to be had, and another session is not concerned.
func TestSalvageBesideDamage(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		f := &tables{server: s, opts: dynamostore.Options{Clock: storetest.NewClock().Now}}
		table := s.Table(t, createTable)
		store, client := f.in(t, table), s.Client()
		for _, m := range []string{"one", "two", "three"} {
			add(t, store, "s", m)
			add(t, store, "whole", m)
		}
		batches := sortKeys(t, client, table, ":s")
		_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
			TableName: &table, Key: map[string]types.AttributeValue{"pk": text(":s"), "sk": text(batches[1])},
		})
		check(t, err)
		for _, s := range []*dynamostore.Store{store, f.in(t, table)} {
			if _, err := s.Load(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("Load without the item of message 2 = %v, want ErrCorrupt", err)
			}
			snap, damage, err := s.Salvage(t.Context(), "s")
			check(t, err)
			if len(snap.Messages) != 2 || snap.Messages[1].Text() != "three" || len(damage) != 1 || damage[0].Position != 2 {
				t.Errorf("Salvage = %v, %+v, want messages 1 and 3, and damage at 2", snap.Messages, damage)
			}
			if got := texts(t, s, "whole"); len(got) != 3 {
				t.Errorf("the other session has %q, want three messages", got)
			}
		}
	})
}
