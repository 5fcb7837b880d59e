package jobfile

import (
	"errors"
	"fmt"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on the shape of a file. The YAML parser is recursive, and takes quadratic time in depth,
// in the keys of a block, in documents and in empty list items, so tokens are counted first.
const (
	maxDepth  = 16   // brackets in brackets, dashes in a row
	maxColumn = 200  // of a block's key or dash
	maxKeys   = 5000 // in the whole file
)

// parse turns text into the one mapping a job file is, or reports why it is not. Anchors and
// aliases, which can make a small file huge, tags and directives are refused before the parser sees
// them.
func (r *reader) parse(text string) (root ast.Node) {
	defer func() {
		if p := recover(); p != nil { // a bug of the YAML library must not take the peer down
			r.fail(place{}, "the file cannot be read as YAML (%v)", p)
			root = nil
		}
	}()
	tokens := lexer.Tokenize(text)
	if !r.harmless(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		r.syntax(err)
		return nil
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			docs = append(docs, d.Body)
		}
	}
	switch len(docs) {
	case 0:
		r.fail(place{}, "the file is empty; the least a job file says is run: {process: {command: [hostname]}}")
		return nil
	case 1:
		return docs[0]
	}
	r.fail(placeAt(docs[1]), "a second document begins here; a job file holds one job")
	return nil
}

// harmless looks at the tokens for what is refused and for shapes that would be costly to parse.
func (r *reader) harmless(tokens token.Tokens) bool {
	var c counts
	for _, t := range tokens {
		msg := refused(t.Type)
		if msg == "" {
			msg = c.add(t)
		}
		if msg != "" {
			r.fail(place{t.Position.Line, t.Position.Column}, "%s", msg)
			return false
		}
	}
	return true
}

// refused words why a kind of token has no place in a job file, "" if it has.
func refused(t token.Type) string {
	switch t {
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return "anchors, aliases and merge keys (& * <<) are not used in job files; write the value out (or in quotes, if it is meant as text)"
	case token.TagType, token.DirectiveType:
		return "tags and directives (! %) are not used in job files; put the value in quotes if it is meant as text"
	case token.MappingKeyType:
		return "keys that begin with ? are not used in job files; put the value in quotes if it is meant as text"
	}
	return ""
}

// counts follows the shape of a file token by token.
type counts struct {
	open                    []token.Type // brackets that are not closed yet, the outermost first
	valued                  bool         // the entry at hand of the innermost braces has a colon, which has been counted
	dashes, keys, documents int
	line, tokens            int
	dash                    *token.Token // the token before, if it was a dash
}

// add says what is too much once t is counted, "" if nothing is.
func (c *counts) add(t *token.Token) string {
	at, dash := t.Position, c.dash
	if at.Line != c.line {
		c.line, c.dashes = at.Line, 0
	}
	if t.Type == token.CommentType {
		return ""
	}
	c.dash = nil
	c.tokens++
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		c.open = append(c.open, t.Type)
	case token.SequenceEndType, token.MappingEndType:
		c.open = c.open[:max(len(c.open)-1, 0)]
	case token.MappingValueType:
		c.keys++
		c.valued = true
	case token.CollectEntryType:
		c.entry()
	case token.DocumentHeaderType:
		c.documents++
		if c.documents > 1 || c.tokens > 1 {
			return "a second document begins here; a job file holds one job"
		}
	case token.SequenceEntryType:
		c.dashes++
		c.dash = t
		if dash != nil && dash.Position.Line < at.Line && at.Column <= dash.Position.Column {
			return `the list item before this one is empty; for an empty text write ""`
		}
	}
	block := len(c.open) == 0 && (t.Type == token.SequenceEntryType || t.Type == token.MappingValueType)
	switch {
	case len(c.open) > maxDepth || c.dashes > maxDepth || block && at.Column > maxColumn:
		return "nested too deeply for a job file"
	case c.keys > maxKeys:
		return fmt.Sprintf("more than %s keys", grouped(maxKeys))
	}
	return ""
}

// entry counts what ended with a comma, in braces: {a, b} has two keys and no colon.
func (c *counts) entry() {
	if n := len(c.open); n == 0 || c.open[n-1] != token.MappingStartType {
		return
	}
	if !c.valued {
		c.keys++
	}
	c.valued = false
}

// syntax reports what the YAML parser did not understand.
func (r *reader) syntax(err error) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		r.fail(place{}, "this is not YAML: %s", strings.SplitN(err.Error(), "\n", 2)[0])
		return
	}
	p := e.GetToken().Position
	at := place{p.Line, p.Column}
	switch msg := e.GetMessage(); {
	case strings.Contains(msg, "tab character"), strings.Contains(msg, "'\t'"):
		r.fail(at, "a tab; YAML is indented with spaces")
	case strings.Contains(msg, "already defined"):
		r.fail(at, "the key %q is given twice", clip(e.GetToken().Value))
	default:
		r.fail(at, "this is not YAML: %s", msg)
	}
}

// placeAt is where a person would point for a node: at the key of a block, not at its first colon.
func placeAt(n ast.Node) place {
	t := n.GetToken()
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			t = n.Values[0].Key.GetToken()
		} else if n.Start != nil {
			t = n.Start
		}
	case *ast.MappingValueNode:
		t = n.Key.GetToken()
	case *ast.LiteralNode:
		t = n.Start
	}
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{t.Position.Line, t.Position.Column}
}

// kind words what a node is, for "expected a list, got …".
func kind(n ast.Node) string {
	switch n := n.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return fmt.Sprintf("text %q", clip(n.Value))
	case *ast.LiteralNode:
		return "text"
	case *ast.BoolNode:
		return n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode:
		return "the number " + clip(n.GetToken().Value)
	}
	return fmt.Sprintf("%q", clip(n.GetToken().Value))
}
