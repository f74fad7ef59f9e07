package dynamostore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
)

// The attributes and indexes that the table's definition names. All keys are
// strings; attrTTL is a number, the Unix time in seconds after which DynamoDB
// may delete an item.
const (
	attrPK  = "pk" // of the table: partition key
	attrSK  = "sk" // of the table: sort key
	attrTTL = "ttl"

	indexRecency = "by-recency"
	indexFolder  = "by-folder"
	attrAP       = "ap" // of by-recency: partition key
	attrFP       = "fp" // of by-folder: partition key
	attrLK       = "lk" // of both: sort key
)

// keys is a key schema.
type keys struct{ partition, sort string }

var (
	tableKeys = keys{attrPK, attrSK}
	indexKeys = map[string]keys{indexRecency: {attrAP, attrLK}, indexFolder: {attrFP, attrLK}}
)

// TableAPI is what CreateTable asks of DynamoDB. A *dynamodb.Client is one.
type TableAPI interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

var _ TableAPI = (*dynamodb.Client)(nil)

// TableOptions are the options of CreateTable, for a table that it creates.
// nil and zero values are the defaults.
type TableOptions struct {
	// Tags are put on the table.
	Tags map[string]string
	// DeletionProtection keeps the table from being deleted by mistake.
	DeletionProtection bool
	// KMSKey is the key in AWS KMS that encrypts the table, by its ID, ARN or
	// alias. Empty: DynamoDB's own, which costs nothing.
	KMSKey string
}

// CreateTable makes the table of a Store, on demand and with its indexes, waits
// until it can be used, and switches time to live on. Of a table that is there
// already it checks that it is the right one, else ErrTable, and does what is
// left to do, so it may be called at every start, by several processes at once.
// It waits as long as ctx lets it. A server that does not know time to live, as
// some for tests don't, never deletes expired items; they don't show all the
// same.
func CreateTable(ctx context.Context, client TableAPI, table string, opts *TableOptions) error {
	err := session.ErrInvalidOption
	if client != nil && table != "" {
		err = createTable(ctx, client, table, opts)
	}
	if err == nil {
		return nil
	}
	if text := accessHint(err); text != "" {
		err = &hint{ErrAccess, placeOf(client, table) + ": " + text, err}
	}
	return &session.Error{Op: "create table", Err: err}
}

func createTable(ctx context.Context, client TableAPI, table string, opts *TableOptions) error {
	var o TableOptions
	if opts != nil {
		o = *opts
	}
	for wait := newPolling(); ; {
		out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		switch {
		case codeOf(err) == "ResourceNotFoundException":
			_, err := client.CreateTable(ctx, definition(table, o))
			if err != nil && codeOf(err) != "ResourceInUseException" { // another was faster
				return err
			}
		case err != nil:
			return err
		case out.Table == nil:
			return fmt.Errorf("%w: DescribeTable of %q returned nothing", ErrTable, table)
		default:
			// One that is being deleted will be gone.
			if wrong := checkTable(out.Table); wrong != "" && out.Table.TableStatus != types.TableStatusDeleting {
				return &hint{ErrTable, placeOf(client, table) + ": " + wrong, nil}
			}
			if isActive(out.Table) {
				return expireItems(ctx, client, table)
			}
		}
		if err := wait.next(ctx); err != nil {
			return fmt.Errorf("dynamostore: waiting for table %q: %w", table, err)
		}
	}
}

// definition is the table as it is created.
func definition(table string, o TableOptions) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   &table,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   tableKeys.schema(),
	}
	for _, a := range []string{attrPK, attrSK, attrAP, attrFP, attrLK} {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(a), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	for _, name := range []string{indexRecency, indexFolder} {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(name), KeySchema: indexKeys[name].schema(),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	for k, v := range o.Tags {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	// Left out unless asked for: servers for tests may not know them.
	if o.DeletionProtection {
		in.DeletionProtectionEnabled = aws.Bool(true)
	}
	if o.KMSKey != "" {
		in.SSESpecification = &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSETypeKms, KMSMasterKeyId: &o.KMSKey}
	}
	return in
}

func (k keys) schema() []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(k.partition), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(k.sort), KeyType: types.KeyTypeRange},
	}
}

// checkTable says in which way a table is not one of a Store, "" if it is one.
func checkTable(t *types.TableDescription) string {
	if got := keysOf(t.KeySchema); got != tableKeys {
		return fmt.Sprintf("its key is %v, want %v; a Store needs a table of its own", got, tableKeys)
	}
	for _, a := range t.AttributeDefinitions {
		name := aws.ToString(a.AttributeName)
		if a.AttributeType != types.ScalarAttributeTypeS && slices.Contains([]string{attrPK, attrSK, attrAP, attrFP, attrLK}, name) {
			return fmt.Sprintf("its key attribute %q has type %s, want S", name, a.AttributeType)
		}
	}
	for _, name := range []string{indexRecency, indexFolder} {
		i := slices.IndexFunc(t.GlobalSecondaryIndexes, func(g types.GlobalSecondaryIndexDescription) bool { return aws.ToString(g.IndexName) == name })
		if i < 0 {
			return fmt.Sprintf("it lacks the global secondary index %q, with the key %v and KEYS_ONLY", name, indexKeys[name])
		}
		if got := keysOf(t.GlobalSecondaryIndexes[i].KeySchema); got != indexKeys[name] {
			return fmt.Sprintf("the key of its index %q is %v, want %v", name, got, indexKeys[name])
		}
	}
	return ""
}

func keysOf(schema []types.KeySchemaElement) (k keys) {
	for _, e := range schema {
		if e.KeyType == types.KeyTypeHash {
			k.partition = aws.ToString(e.AttributeName)
		} else {
			k.sort = aws.ToString(e.AttributeName)
		}
	}
	return k
}

// String shows a key as the partition's attribute and the sort attribute.
func (k keys) String() string {
	if k.sort == "" {
		return k.partition
	}
	return k.partition + " and " + k.sort
}

// isActive reports whether a table can be used, with its indexes. A server for
// tests may leave the states empty.
func isActive(t *types.TableDescription) bool {
	for _, g := range t.GlobalSecondaryIndexes {
		if g.IndexStatus != types.IndexStatusActive && g.IndexStatus != "" {
			return false
		}
	}
	switch t.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating, "":
		return true
	}
	return false
}

// expireItems switches time to live on.
func expireItems(ctx context.Context, client TableAPI, table string) error {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if codeOf(err) == "UnknownOperationException" {
		return nil
	}
	if err != nil {
		return err
	}
	if d := out.TimeToLiveDescription; d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		if a := aws.ToString(d.AttributeName); a != attrTTL {
			return &hint{ErrTable, fmt.Sprintf("%s: its time to live is that of attribute %q, want %q", placeOf(client, table), a, attrTTL), nil}
		}
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	})
	switch codeOf(err) {
	case "UnknownOperationException":
		return nil
	case "ValidationException": // another process may have been faster
		again, describeErr := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
		if describeErr == nil && again.TimeToLiveDescription != nil && aws.ToString(again.TimeToLiveDescription.AttributeName) == attrTTL {
			return nil
		}
	}
	return err
}

// polling waits between two looks at a table, longer each time.
type polling struct{ pause time.Duration }

func newPolling() *polling { return &polling{50 * time.Millisecond} }

func (p *polling) next(ctx context.Context) error {
	t := time.NewTimer(p.pause)
	defer t.Stop()
	p.pause = min(2*p.pause, 2*time.Second)
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
