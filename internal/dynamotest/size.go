package dynamotest

import (
	"encoding/base64"
	"math"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The sizes are those that the DynamoDB Developer Guide gives under "DynamoDB
// item sizes and formats", the units those under "DynamoDB read and write
// operations".
const (
	maxItemSize = 400 << 10
	writeUnit   = 1 << 10
	readUnit    = 4 << 10
)

// item is an item as JSON has it: attribute name, type, value.
type item = map[string]map[string]any

// Size returns the size of an item whose attributes are strings, numbers and
// binaries, in bytes, by DynamoDB's published rules.
func Size(attributes map[string]types.AttributeValue) int {
	n := 0
	for name, v := range attributes {
		n += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += sizeOfNumber(v.Value)
		}
	}
	return n
}

// sizeOf returns the size of an item in bytes, 0 of none.
func sizeOf(i item) int {
	n := 0
	for name, v := range i {
		n += len(name) + sizeOfValue(v)
	}
	return n
}

func sizeOfValue(v map[string]any) int {
	for kind, v := range v {
		switch v := v.(type) {
		case bool: // BOOL, NULL
			return 1
		case string:
			switch kind {
			case "N":
				return sizeOfNumber(v)
			case "B":
				return base64.StdEncoding.DecodedLen(len(v)) - strings.Count(v, "=")
			}
			return len(v)
		case []any:
			n := 0
			if kind == "L" {
				n = 3
			}
			for _, e := range v {
				switch e := e.(type) {
				case string:
					n += sizeOfValue(map[string]any{kind[:1]: e})
				case map[string]any:
					n += 1 + sizeOfValue(e)
				}
			}
			return n
		case map[string]any: // M
			n := 3
			for name, e := range v {
				if e, ok := e.(map[string]any); ok {
					n += 1 + len(name) + sizeOfValue(e)
				}
			}
			return n
		}
	}
	return 0
}

// sizeOfNumber counts a byte for two significant digits, and one more.
func sizeOfNumber(n string) int {
	n, negative := strings.CutPrefix(n, "-")
	digits := strings.Trim(strings.ReplaceAll(n, ".", ""), "0")
	size := 1 + (len(digits)+1)/2
	if negative {
		size++
	}
	return size
}

// units returns how many units a size takes.
func units(size, unit int) float64 {
	return math.Max(1, math.Ceil(float64(size)/float64(unit)))
}
