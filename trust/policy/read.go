package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// MaxFile is how large a policy's file may be, in bytes.
const MaxFile = 64 << 10

// Error is what is wrong with a policy's file, and where.
type Error struct {
	Line, Column int // from 1
	Text         string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

// Read reads a policy's file. It is strict: what it does not know is an error, so that a slip of
// the pen never lets more in than was meant.
func Read(text []byte) (p Policy, err error) {
	defer func() {
		if r := recover(); r != nil { // a bug of the YAML library must not be one of ours
			p, err = Policy{}, &Error{1, 1, fmt.Sprintf("it cannot be read as YAML (%v)", r)}
		}
	}()
	if len(text) > MaxFile {
		return p, &Error{1, 1, fmt.Sprintf("the file has %d bytes, at most %d are allowed", len(text), MaxFile)}
	}
	root, err := parse(string(text))
	if err != nil {
		return p, err
	}
	r := &reader{}
	r.policy(root, &p)
	if r.err != nil {
		return Policy{}, r.err
	}
	return p, nil
}

// Shapes that cost the YAML parser much are refused by their tokens.
const (
	maxTokens = 8192
	maxDepth  = 8
)

func parse(text string) (ast.Node, error) {
	tokens := lexer.Tokenize(text)
	depth := 0
	for i, t := range tokens {
		at := func(text string) error { return &Error{t.Position.Line, t.Position.Column, text} }
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType, token.MappingKeyType:
			return nil, at("anchors, aliases, tags and directives (& * << ! % ?) are not used here; write the value out")
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			if i > 0 && tokens[i-1].Type == token.SequenceEntryType {
				return nil, at("a list in a list; expected one dash")
			}
		}
		if i > maxTokens || depth > maxDepth || t.Position.Column > MaxFile/8 {
			return nil, at("nested too deeply, or too long, for a policy")
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		var e yaml.Error
		if errors.As(err, &e) && e.GetToken() != nil {
			at := e.GetToken().Position
			return nil, &Error{at.Line, at.Column, "this is not YAML: " + e.GetMessage()}
		}
		return nil, &Error{1, 1, "this is not YAML: " + strings.SplitN(err.Error(), "\n", 2)[0]}
	}
	var root ast.Node
	for _, d := range file.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			return nil, wrong(d.Body, "a second document begins here; a policy is one")
		}
		root = d.Body
	}
	if root == nil {
		return nil, &Error{1, 1, "the file is empty; a policy that lets nothing run is rules: []"}
	}
	return root, nil
}

// wrong is an error at a node.
func wrong(n ast.Node, format string, args ...any) *Error {
	e := &Error{1, 1, fmt.Sprintf(format, args...)}
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		t = m.Key.GetToken()
	}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// reader keeps the first error.
type reader struct{ err error }

func (r *reader) fail(n ast.Node, format string, args ...any) {
	if r.err == nil {
		r.err = wrong(n, format, args...)
	}
}

// field is a key and what reads its value.
type field struct {
	name string
	read func(n ast.Node)
}

func (r *reader) object(n ast.Node, where string, fields ...field) {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		r.fail(n, "%s: expected keys and values (%s)", where, strings.Join(names, ", "))
		return
	}
	seen := map[string]bool{}
	for _, kv := range pairs {
		key := kv.Key.GetToken().Value
		i := slices.Index(names, key)
		switch {
		case i < 0:
			r.fail(kv.Key, "unknown key %q%s in %s; allowed: %s", spell.Clip(key), meant(key, names), where, strings.Join(names, ", "))
		case seen[key]:
			r.fail(kv.Key, "the key %q is given twice", key)
		case kv.Value == nil || kv.Value.Type() == ast.NullType:
			r.fail(kv.Key, "%s has no value; give it one, or remove the key", key)
		default:
			fields[i].read(kv.Value)
		}
		seen[key] = true
	}
}

func meant(word string, words []string) string {
	if near := spell.Nearest(word, words); near != "" && near != word {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

func (r *reader) list(n ast.Node, what string) []ast.Node {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(n, "%s: expected a list, as in [a, b]", what)
		return nil
	}
	return seq.Values
}

// text reads a value as it is spelt.
func (r *reader) text(n ast.Node, what string) string {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value
	}
	r.fail(n, "%s: expected a word", what)
	return ""
}

// word reads one of some words.
func (r *reader) word(n ast.Node, what string, words ...string) string {
	s := r.text(n, what)
	if !slices.Contains(words, s) {
		r.fail(n, "%s: expected %s, got %q%s", what, strings.Join(words, " or "), spell.Clip(s), meant(s, words))
	}
	return s
}

func (r *reader) flag(n ast.Node, what string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.fail(n, "%s: expected true or false", what)
		return false
	}
	return b.Value
}

func (r *reader) policy(n ast.Node, p *Policy) {
	ruled := false
	r.object(
		n, "a policy",
		field{"rules", func(n ast.Node) {
			ruled = true
			all := r.list(n, "rules")
			if len(all) > MaxRules {
				r.fail(n, "%d rules, at most %d are allowed", len(all), MaxRules)
				return
			}
			for _, rule := range all {
				p.Rules = append(p.Rules, r.rule(rule))
			}
		}},
		field{"unsigned", func(n ast.Node) { p.Unsigned = r.word(n, "unsigned", allow, refuse) == allow }},
		field{"on_revoke", func(n ast.Node) { p.Finish = r.word(n, "on_revoke", stop, finish) == finish }},
	)
	if !ruled {
		r.fail(n, "rules: is missing; a policy that lets nothing run is rules: []")
	}
}

// Words of the file.
const (
	allow  = "allow"
	refuse = "refuse"
	stop   = "stop"
	finish = "finish"
	anyRun = "any"
)

func (r *reader) rule(n ast.Node) (out Rule) {
	out.Line = wrong(n, "").Line
	has := map[string]bool{}
	note := func(name string, read func(ast.Node)) field {
		return field{name, func(n ast.Node) { has[name] = true; read(n) }}
	}
	r.object(
		n, "a rule",
		note("from", func(n ast.Node) {
			for _, v := range r.list(n, "from") {
				out.From = append(out.From, r.from(v))
			}
		}),
		note("run", func(n ast.Node) { out.Run = r.run(n) }),
		note("env", func(n ast.Node) {
			for _, v := range r.list(n, "env") {
				out.Env = append(out.Env, r.variable(v))
			}
		}),
		note("as", func(n ast.Node) { out.As = r.as(n) }),
		note("read", func(n ast.Node) {
			for _, v := range r.list(n, "read") {
				out.Read = append(out.Read, r.path(v, "read"))
			}
		}),
		note("net", func(n ast.Node) { out.Net = r.word(n, "net", taskstate.NetNone, taskstate.NetAny) }),
		note("isolate", func(n ast.Node) { out.Isolate = r.word(n, "isolate", isolations()...) }),
		note("limits", func(n ast.Node) { out.Limits, out.Each = r.limits(n) }),
		note("require", func(n ast.Node) {
			for _, v := range r.list(n, "require") {
				out.Require = append(out.Require, r.word(v, "require", taskstate.RequireLandlock, taskstate.RequireUser, taskstate.RequireCgroup, taskstate.RequireNet))
			}
		}),
		note("without", func(n ast.Node) {
			for _, v := range r.list(n, "without") {
				out.Without = append(out.Without, r.word(v, "without", taskstate.WithoutNNP, taskstate.WithoutHide))
			}
		}),
	)
	switch {
	case len(out.From) == 0:
		r.fail(n, "a rule says who may: from: [self, role:admin, key:12D3Koo…]")
	case !has["run"]:
		r.fail(n, "a rule says what may be run: run: any, or run: {process: [/usr/bin/ffmpeg]}")
	case has["env"] && len(out.Run.Programs) == 0:
		r.fail(n, "env: names variables that a list of programs may have besides harmless ones, and this rule has no such list; remove it, or write run: {process: [/usr/bin/ffmpeg]}")
	case len(out.Read) > 0 && out.Isolate == "":
		out.Isolate = taskstate.IsolateFS // what else it may read is what it is about
	case len(out.Read) > 0 && out.Isolate == taskstate.IsolateNone:
		r.fail(n, "read: says what a task may read besides the system's folders, and with isolate: none it reads what its user may; remove one of them")
	}
	return out
}

func (r *reader) from(n ast.Node) string {
	s := r.named(n)
	if key, ok := strings.CutPrefix(s, Key); ok {
		if !IsKey(key) {
			r.fail(n, "from: %q is no peer's id, as `peer peers` shows them; names can be taken by others", spell.Clip(key))
		}
		return s
	}
	if role, ok := strings.CutPrefix(s, Role); ok {
		var words []string
		for _, a := range admission.KnownRoles() {
			words = append(words, string(a))
		}
		if !slices.Contains(words, role) {
			r.fail(n, "from: there is no role %q%s; roles are %s", spell.Clip(role), meant(role, words), strings.Join(words, ", "))
		}
		return s
	}
	if s != Self {
		r.fail(n, "from: expected self, role:ROLE or key:ID, got %q", spell.Clip(s))
	}
	return s
}

// named reads key:ID, which YAML takes for a key with its value where it stands in braces.
func (r *reader) named(n ast.Node) string {
	m, ok := n.(ast.MapNode)
	if !ok {
		return r.text(n, "from")
	}
	it := m.MapRange()
	if !it.Next() {
		return r.text(n, "from")
	}
	s := it.Key().GetToken().Value + ":" + r.text(it.Value(), "from")
	if it.Next() {
		r.fail(n, "from: expected self, role:ROLE or key:ID")
	}
	return s
}

// IsKey tells whether a text can be a peer's id.
func IsKey(s string) bool {
	return len(s) >= 8 && len(s) <= 128 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

func (r *reader) run(n ast.Node) (out Run) {
	if _, is := n.(*ast.StringNode); is {
		r.word(n, "run", anyRun)
		return Run{Any: true}
	}
	r.object(
		n, "run",
		field{"process", func(n ast.Node) {
			if _, is := n.(*ast.StringNode); is {
				r.word(n, "process", anyRun)
				out.Process = true
				return
			}
			for _, v := range r.list(n, "process") {
				out.Programs = append(out.Programs, r.path(v, "process"))
			}
		}},
		field{"shell", func(n ast.Node) { out.Shell = r.flag(n, "shell") }},
		field{"script", func(n ast.Node) { out.Script = r.flag(n, "script") }},
	)
	return out
}

func (r *reader) path(n ast.Node, what string) string {
	p := r.text(n, what)
	if !absolute(p) || len(p) > maxWord {
		r.fail(n, "%s: %q is no absolute path without . and ..", what, spell.Clip(p))
	}
	return p
}

// variable reads the name of an environment variable.
func (r *reader) variable(n ast.Node) string {
	name := r.text(n, "env")
	if name == "" || len(name) > maxWord || strings.ContainsAny(name, "=*\x00") {
		r.fail(n, "env: %q is no variable's name", spell.Clip(name))
	}
	return name
}

func (r *reader) as(n ast.Node) string {
	s := r.text(n, "as")
	if name, ok := strings.CutPrefix(s, taskstate.AsUser); ok && name != "" && len(name) <= 64 {
		return s
	}
	return r.word(n, "as", taskstate.AsSelf, taskstate.AsDynamic, taskstate.AsUser+"NAME")
}

func (r *reader) limits(n ast.Node) (out Limits, each []taskstate.Limit) {
	size := func(name string, into *int64, read func(string) (int64, error)) field {
		return field{name, func(n ast.Node) {
			v, err := read(r.text(n, name))
			switch {
			case err != nil:
				r.fail(n, "%s: %v", name, err)
			case v <= 0:
				r.fail(n, "%s: 0 lets nothing run; remove the rule for that", name)
			}
			*into = v
		}}
	}
	limit := func(name string, least int64, read func(string) (int64, error)) field {
		return field{name, func(n ast.Node) {
			v, err := read(n.GetToken().Value)
			if err != nil || v < least {
				r.fail(n, "%s: expected at least %d, got %q", name, least, spell.Clip(n.GetToken().Value))
			}
			each = append(each, taskstate.Limit{Of: name, Max: v})
		}}
	}
	number := func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
	r.object(
		n, "limits",
		limit(taskstate.LimitFiles, taskstate.LeastFiles, number),
		limit(taskstate.LimitProcesses, 1, number),
		limit(taskstate.LimitCore, 0, spell.Size),
		limit(taskstate.LimitFileSize, 1, spell.Size),
		size("cpus", &out.MilliCPU, spell.CPUs),
		size("memory", &out.Memory, spell.Size),
		size("disk", &out.Disk, spell.Size),
		field{"tasks", func(n ast.Node) {
			v, ok := n.(*ast.IntegerNode)
			k, is := uint64(0), false
			if ok {
				k, is = v.Value.(uint64)
			}
			if !is || k < 1 || k > 1_000_000 {
				r.fail(n, "tasks: expected a whole number from 1 to 1000000")
				return
			}
			out.Tasks = int(k)
		}},
		size("time", &out.Time, func(s string) (int64, error) { d, err := spell.Duration(s); return d.Milliseconds(), err }),
	)
	return out, each
}
