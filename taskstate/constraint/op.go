package constraint

import "strings"

type op uint8

const (
	noOp op = iota
	equal
	differs
	atLeast
	atMost
	more
	less
	matches
	in
)

// ops lists the operators as they are written.
const ops = "== != >= <= > < =~ in"

func (o op) String() string {
	if o == noOp {
		return ""
	}
	return strings.Fields(ops)[o-1]
}

// parseOp finds an operator by its spelling; noOp if there is none.
func parseOp(s string) op {
	for i, w := range strings.Fields(ops) {
		if s == w {
			return op(i + 1)
		}
	}
	return noOp
}

// ordered tells whether the operator holds for a comparison: negative where the fact is less than
// the value.
func (o op) ordered(order int) bool {
	switch o {
	case equal:
		return order == 0
	case differs:
		return order != 0
	case atLeast:
		return order >= 0
	case atMost:
		return order <= 0
	case more:
		return order > 0
	case less:
		return order < 0
	}
	return false
}

// orders tells whether the operator asks for more or less.
func (o op) orders() bool { return o == atLeast || o == atMost || o == more || o == less }

// meantOp is what a person meant who wrote an operator of another language; "" if that is not
// known.
func meantOp(s string) string {
	switch strings.ToLower(s) {
	case "=", "===", "is", "eq", "equals":
		return "=="
	case "<>", "!", "!==", "not", "ne", "isnt":
		return "!="
	case "=>", "ge", "gte":
		return ">="
	case "=<", "le", "lte":
		return "<="
	case "gt", ">>":
		return ">"
	case "lt", "<<":
		return "<"
	case "~", "~=", "~~", "==~", "matches", "match", "like", "contains", "regexp":
		return "=~"
	case "one", "among", "of":
		return "in"
	}
	return ""
}
