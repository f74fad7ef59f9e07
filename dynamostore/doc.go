// Package dynamostore keeps sessions in an Amazon DynamoDB table, through the
// AWS SDK for Go v2.
//
//	client := dynamodb.NewFromConfig(cfg)
//	if err := dynamostore.CreateTable(ctx, client, "sessions", nil); err != nil { … }
//	store, err := dynamostore.New(client, "sessions", nil)
//
// Any number of processes may use one table. A write that has returned is in
// three availability zones. Global tables are not supported: their replicas
// don't share the conditions that writes depend on.
//
// # Costs
//
// A session is one small head item, the only one that changes, and immutable
// items of new messages, compressed. So an append costs its own bytes, however
// long the history. In write units (WCU, one for each 1 KB begun) and strongly
// consistent read units (RCU, one for each 4 KB begun):
//
//	append of a text message of 1 KB       2 WCU, no read if this process wrote last
//	append of a turn of 4 messages, 4 KB   3 to 4 WCU, 5 without compression
//	load                                   1 RCU, and 1 for each 4 KB stored
//	last 20 messages                       1 RCU, and the items that hold them
//	Save of a history with one new message as an append of it
//	list                                   0.5 RCU a session, and a few
//
// Once in Options.IndexEvery a write refreshes the session's entry in the
// indexes, which costs 2 WCU an index more; the first write costs 1 an index. A
// Save that is no extension writes the whole history. With a TTL a session that
// is in use for longer than that pays for its whole stored history again, once
// a TTL: DynamoDB charges a new ttl by the size of the item.
//
// # Limits
//
// DynamoDB's limit of 400 KB an item is none of a session's: large batches are
// spread over items, and so are large messages. A session is one partition key,
// of which DynamoDB serves 1,000 WCU and 3,000 RCU a second: several hundred
// appends to one session, and 12 MB of history, a second. Sessions don't
// compete. The index by recency spreads its entries over four partition keys,
// each with that limit, so a table bears some 2,000 index refreshes a second;
// set Options.IndexEvery higher if more sessions than that are written for
// the first time in a minute. What is throttled is tried again.
//
// # List
//
// List reads the indexes, which DynamoDB updates by itself, as a rule within a
// second, and then the heads. What it yields is current and in order, but a
// session that was just created or deleted may be missing or there still. It
// never lags behind by more than the index does, whatever Options.IndexEvery
// is. Reads of the heads are eventually consistent too.
//
// # Expiry
//
// With Options.TTL sessions expire by the store's clock: a session that has
// expired does not exist, whether or not DynamoDB has deleted its items, which
// it does days later, through the attribute ttl. Items carry a ttl that is so
// late that no part of a live session is ever deleted. Time to live must be
// enabled on the table, for the attribute ttl; without it nothing is wrong but
// the bill. It also removes what Delete leaves in place of a session for a day,
// with Options.TTL or without. What a write leaves that was killed before its
// session knew of it has a ttl with Options.TTL alone; without, Delete of the
// session removes it.
//
// Switch Options.TTL on in all processes that write a table at about the same
// time. If the first write with it dies halfway, and only processes without it
// write the session after that, the service may take its messages.
//
// # The table
//
// CreateTable makes it. In Terraform:
//
//	resource "aws_dynamodb_table" "sessions" {
//	  name         = "sessions"
//	  billing_mode = "PAY_PER_REQUEST"
//	  hash_key     = "pk"
//	  range_key    = "sk"
//
//	  dynamic "attribute" {
//	    for_each = ["pk", "sk", "ap", "fp", "lk"]
//	    content {
//	      name = attribute.value
//	      type = "S"
//	    }
//	  }
//
//	  global_secondary_index {
//	    name            = "by-recency"
//	    hash_key        = "ap"
//	    range_key       = "lk"
//	    projection_type = "KEYS_ONLY"
//	  }
//
//	  global_secondary_index {
//	    name            = "by-folder"
//	    hash_key        = "fp"
//	    range_key       = "lk"
//	    projection_type = "KEYS_ONLY"
//	  }
//
//	  ttl {
//	    attribute_name = "ttl"
//	    enabled        = true
//	  }
//	}
//
// In CloudFormation:
//
//	Sessions:
//	  Type: AWS::DynamoDB::Table
//	  Properties:
//	    TableName: sessions
//	    BillingMode: PAY_PER_REQUEST
//	    KeySchema:
//	      - {AttributeName: pk, KeyType: HASH}
//	      - {AttributeName: sk, KeyType: RANGE}
//	    AttributeDefinitions:
//	      - {AttributeName: pk, AttributeType: S}
//	      - {AttributeName: sk, AttributeType: S}
//	      - {AttributeName: ap, AttributeType: S}
//	      - {AttributeName: fp, AttributeType: S}
//	      - {AttributeName: lk, AttributeType: S}
//	    GlobalSecondaryIndexes:
//	      - IndexName: by-recency
//	        KeySchema:
//	          - {AttributeName: ap, KeyType: HASH}
//	          - {AttributeName: lk, KeyType: RANGE}
//	        Projection: {ProjectionType: KEYS_ONLY}
//	      - IndexName: by-folder
//	        KeySchema:
//	          - {AttributeName: fp, KeyType: HASH}
//	          - {AttributeName: lk, KeyType: RANGE}
//	        Projection: {ProjectionType: KEYS_ONLY}
//	    TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}
//
// # The policy
//
// A Store needs no more than this. DescribeTable is only for better errors.
// CreateTable needs dynamodb:CreateTable, DescribeTable, DescribeTimeToLive and
// UpdateTimeToLive (and TagResource for tags), which a process that only uses
// the table should not have.
//
//	{
//	  "Version": "2012-10-17",
//	  "Statement": [{
//	    "Effect": "Allow",
//	    "Action": [
//	      "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query",
//	      "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem"
//	    ],
//	    "Resource": [
//	      "arn:aws:dynamodb:REGION:ACCOUNT:table/sessions",
//	      "arn:aws:dynamodb:REGION:ACCOUNT:table/sessions/index/*"
//	    ]
//	  }, {
//	    "Effect": "Allow",
//	    "Action": "dynamodb:DescribeTable",
//	    "Resource": "arn:aws:dynamodb:REGION:ACCOUNT:table/sessions"
//	  }]
//	}
//
// Every partition key, of the table and of both indexes, begins with
// Options.KeyPrefix and a colon. So a condition on the first statement keeps a
// tenant to its own sessions:
//
//	"Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["tenant-1:*"]}}
package dynamostore
