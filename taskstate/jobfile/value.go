package jobfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/coveyproject/covey/taskstate/spell"
)

type field struct {
	name string
	read func(n ast.Node, path string)
}

// object reads a mapping. What is not in fields is an error: later names what the design promises
// and nobody has built.
func (r *reader) object(n ast.Node, path string, fields []field, later ...string) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	pairs, ok := entries(n)
	if !ok {
		r.fail(placeAt(n), "%sexpected keys and values (%s), got %s", prefix(path), strings.Join(names, ", "), kind(n))
		return
	}
	seen := map[string]bool{}
	for _, kv := range pairs {
		key, at := kv.Key.GetToken().Value, placeAt(kv.Key)
		full := strings.TrimPrefix(path+"."+key, ".")
		if seen[key] {
			r.fail(at, "the key %q is given twice", key)
			continue
		}
		seen[key] = true
		r.at[full] = at
		i := indexOf(names, key)
		switch {
		case i < 0:
			r.unknown(at, key, path, names, later)
		case kv.Value == nil || kv.Value.Type() == ast.NullType:
			r.fail(at, "%s has no value; give it one, or remove the key", full)
		default:
			r.at[full] = placeAt(kv.Value)
			fields[i].read(kv.Value, full)
		}
	}
}

func (r *reader) unknown(at place, key, path string, names, later []string) {
	if indexOf(later, key) >= 0 {
		r.fail(at, "%q is not supported yet; remove it, or wait for a version that has it", strings.TrimPrefix(path+"."+key, "."))
		return
	}
	hint := "."
	if near := nearest(key, append(append([]string{}, names...), later...)); near != "" {
		hint = fmt.Sprintf(": did you mean %q?", near)
	} else if home := homes()[key]; home != "" {
		hint = fmt.Sprintf(": it belongs %s.", home)
	}
	where := "at the top of a job file"
	if path != "" {
		where = "in " + path
	}
	r.fail(at, "unknown key %q%s Allowed %s: %s", clip(key), hint, where, strings.Join(names, ", "))
}

// entries gives the pairs of a mapping, however the parser shaped it.
func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// text reads any single value as it is spelt: numbers and true/false need no quotes where text is
// wanted.
func (r *reader) text(n ast.Node, path string) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	r.fail(placeAt(n), "%sexpected text, got %s", prefix(path), kind(n))
	return "", false
}

func (r *reader) texts(n ast.Node, path, example string) []string {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(placeAt(n), "%sexpected a list, as in %s, got %s", prefix(path), example, kind(n))
		return nil
	}
	out := make([]string, 0, len(seq.Values))
	for i, v := range seq.Values {
		if s, ok := r.text(v, fmt.Sprintf("%s[%d]", path, i)); ok {
			out = append(out, s)
		}
		r.at[fmt.Sprintf("%s[%d]", path, i)] = placeAt(v)
	}
	return out
}

func (r *reader) whole(n ast.Node, path string, low, high int) int {
	_, ok := n.(*ast.IntegerNode)
	if text, is := n.(*ast.StringNode); is && text.Token.Type == token.StringType { // too many digits for the parser
		ok = text.Value != "" && strings.Trim(text.Value, "0123456789") == ""
	}
	if !ok {
		r.fail(placeAt(n), "%sexpected a whole number, got %s", prefix(path), kind(n))
		return 0
	}
	s := n.GetToken().Value
	v, err := strconv.Atoi(s)
	if err != nil || strconv.Itoa(v) != s || v < low || v > high {
		r.fail(placeAt(n), "%sexpected a whole number from %s to %s, got %s", prefix(path), grouped(low), grouped(high), clip(s))
		return 0
	}
	return v
}

func (r *reader) flag(n ast.Node, path string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.fail(placeAt(n), "%sexpected true or false, got %s", prefix(path), kind(n))
		return false
	}
	return b.Value
}

func (r *reader) duration(n ast.Node, path string) int64 {
	return quantity(r, n, path, func(s string) (int64, error) {
		d, err := spell.Duration(s)
		return int64(d / time.Millisecond), err
	})
}

func quantity(r *reader, n ast.Node, path string, parse func(string) (int64, error)) int64 {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		v, err := parse(spelling(n))
		if err != nil {
			r.fail(placeAt(n), "%s%v", prefix(path), err)
		}
		return v
	}
	_, err := parse("") // its words for what is wanted
	r.fail(placeAt(n), "%s%v, got %s", prefix(path), strings.TrimSuffix(err.Error(), `, got ""`), kind(n))
	return 0
}

func spelling(n ast.Node) string {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return n.GetToken().Value
}

func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

// grouped writes a number as people read it: 1,000,000.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
