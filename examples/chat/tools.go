package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// newTools returns the tools of the chat. clock tells the time.
func newTools(clock func() time.Time) []session.Tool {
	return []session.Tool{
		newTool("calculator", "works out an arithmetic expression", `{"type":"object","properties":{"expression":{"type":"string"}}}`, calculator),
		newTool("clock", "tells the time", `{"type":"object"}`, func(context.Context, json.RawMessage) (string, error) {
			return clock().Format(time.RFC3339), nil
		}),
	}
}

// newTool returns a tool whose input is JSON and whose result is text. An error
// is for the model to read.
func newTool(name, description, schema string, call func(ctx context.Context, input json.RawMessage) (string, error)) session.Tool {
	return session.Tool{
		Name: name, Description: description, Schema: json.RawMessage(schema),
		Call: func(ctx context.Context, use *session.ToolUseBlock) ([]session.Block, error) {
			text, err := call(ctx, use.Input)
			if err != nil {
				return nil, err
			}
			return []session.Block{session.Text(text)}, nil
		},
	}
}

// calculatorInput is the calculator's argument.
type calculatorInput struct {
	Expression string `json:"expression"`
}

func calculator(_ context.Context, input json.RawMessage) (string, error) {
	var in calculatorInput
	if err := json.Unmarshal(input, &in); err != nil {
		return "", errors.New(`the input is not {"expression": "…"}`)
	}
	return calculate(in.Expression)
}

const (
	maxExpression = 1000 // bytes
	maxBits       = 4096 // of a number
)

var (
	errSyntax   = errors.New("that is not an expression I can read")
	errZero     = errors.New("division by zero")
	errTooLarge = errors.New("the numbers get too large")

	leadingZeros   = regexp.MustCompile(`(^|[^0-9a-zA-Z.])0+([0-9])`)
	thousands      = regexp.MustCompile(`([0-9]),([0-9]{3})\b`)
	typographicOps = strings.NewReplacer("×", "*", "÷", "/", "−", "-", "–", "-", ":", "/")
)

// calculate evaluates +, -, *, /, % and ^ on exact numbers, with parentheses.
// The result is an integer, or a decimal of up to 15 digits.
func calculate(expression string) (string, error) {
	if len(expression) > maxExpression {
		return "", errors.New("the expression is too long")
	}
	text := typographicOps.Replace(expression)
	text = thousands.ReplaceAllString(text, "$1$2")
	text = leadingZeros.ReplaceAllString(text, "$1$2")
	tree, err := parser.ParseExpr(text)
	if err != nil {
		return "", errSyntax // the parser's own error speaks of Go
	}
	v, err := evaluate(tree)
	if err != nil {
		return "", err
	}
	if i := constant.ToInt(v); i.Kind() == constant.Int {
		return i.ExactString(), nil
	}
	f, _ := constant.Float64Val(v)
	if math.IsInf(f, 0) {
		return "", errTooLarge
	}
	return strconv.FormatFloat(f, 'g', 15, 64), nil
}

func evaluate(e ast.Expr) (constant.Value, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return evaluate(e.X)
	case *ast.BasicLit:
		if e.Kind != token.INT && e.Kind != token.FLOAT {
			return nil, errSyntax
		}
		return checkSize(constant.MakeFromLiteral(e.Value, e.Kind, 0))
	case *ast.UnaryExpr:
		if e.Op != token.SUB && e.Op != token.ADD {
			return nil, errSyntax
		}
		x, err := evaluate(e.X)
		if err != nil {
			return nil, err
		}
		return constant.UnaryOp(e.Op, x, 0), nil
	case *ast.BinaryExpr:
		if _, negated := e.X.(*ast.UnaryExpr); e.Op == token.XOR && (negated || isBinary(e.X) || isBinary(e.Y)) {
			// The parser knows ^ as another operator, that binds like a +.
			return nil, errors.New("put powers in parentheses, as in 2 * (3^4)")
		}
		x, err := evaluate(e.X)
		if err != nil {
			return nil, err
		}
		y, err := evaluate(e.Y)
		if err != nil {
			return nil, err
		}
		return operate(x, e.Op, y)
	}
	return nil, errSyntax
}

func isBinary(e ast.Expr) bool { _, ok := e.(*ast.BinaryExpr); return ok }

func operate(x constant.Value, op token.Token, y constant.Value) (constant.Value, error) {
	switch op {
	case token.ADD, token.SUB, token.MUL:
		return checkSize(constant.BinaryOp(x, op, y))
	case token.QUO:
		if constant.Sign(y) == 0 {
			return nil, errZero
		}
		return checkSize(constant.BinaryOp(x, op, y))
	case token.REM:
		x, y = constant.ToInt(x), constant.ToInt(y)
		if x.Kind() != constant.Int || y.Kind() != constant.Int {
			return nil, errors.New("% needs whole numbers")
		}
		if constant.Sign(y) == 0 {
			return nil, errZero
		}
		return constant.BinaryOp(x, op, y), nil
	case token.XOR:
		return power(x, y)
	}
	return nil, fmt.Errorf("there is no operator %s here", op)
}

func power(x, y constant.Value) (constant.Value, error) {
	n, exact := constant.Int64Val(constant.ToInt(y))
	if constant.ToInt(y).Kind() != constant.Int {
		return nil, errors.New("^ needs a whole number on its right")
	}
	if !exact || n < -maxBits || n > maxBits {
		return nil, errTooLarge
	}
	if n < 0 {
		if constant.Sign(x) == 0 {
			return nil, errZero
		}
		x, n = constant.BinaryOp(constant.MakeInt64(1), token.QUO, x), -n
	}
	result := constant.MakeInt64(1)
	for ; n > 0; n >>= 1 {
		var err error
		if n&1 == 1 {
			if result, err = checkSize(constant.BinaryOp(result, token.MUL, x)); err != nil {
				return nil, err
			}
		}
		if n > 1 {
			if x, err = checkSize(constant.BinaryOp(x, token.MUL, x)); err != nil {
				return nil, err
			}
		}
	}
	return result, nil
}

// checkSize keeps numbers small enough to be exact and quick.
func checkSize(v constant.Value) (constant.Value, error) {
	if v.Kind() != constant.Int && v.Kind() != constant.Float {
		return nil, errTooLarge // not even constant holds it
	}
	num, denom := constant.Num(v), constant.Denom(v)
	if num.Kind() != constant.Int || constant.BitLen(num) > maxBits || constant.BitLen(denom) > maxBits {
		return nil, errTooLarge
	}
	return v, nil
}
