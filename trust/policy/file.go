package policy

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// FileName is the policy's file in the data folder.
const FileName = "policy.yaml"

const head = `# What this machine lets run. The first rule that names who asks and what is to run decides; none
# means no. It is read again when it changes. See docs/trust.md, and: peer trust list|add|remove|edit|test
`

// Text is a new file: of my machines, or of one that lets nothing run until its owner says so.
func Text(mine, unsigned bool) []byte {
	text := head
	if unsigned {
		text += "unsigned: allow # jobs of peers that do not sign them yet; remove this line when all peers are new\n"
	}
	if mine {
		return []byte(text + "rules:\n- from: [self, role:admin]\n  run: any\n")
	}
	return []byte(text + "rules: []\n")
}

// TextAsBefore is the file of a machine of others that was a member before there were policies: it
// goes on as it did, in words that its owner can read and change.
func TextAsBefore() []byte {
	return []byte(head + "# As version 0.1 did: whoever may submit. `peer trust add KEY` lets in that key instead of them.\n" +
		"unsigned: allow\nrules:\n- from: [self, role:submit]\n  run: any\n")
}

// ErrHas is that a key is named already.
var ErrHas = errors.New("a rule of its own lets this key in already")

// Add adds a rule at the end of a file that lets a key have anything run, or only some programs.
// What people wrote there stays as it is; TextAsBefore, which nobody wrote, goes.
func Add(text []byte, key string, programs []string) ([]byte, error) {
	if bytes.Equal(text, TextAsBefore()) {
		text = Text(false, false)
	}
	old, err := Read(text)
	if err != nil {
		return nil, err
	}
	want := Rule{From: []string{Key + key}, Run: Run{Any: len(programs) == 0, Programs: programs}}
	if slices.ContainsFunc(old.Rules, func(r Rule) bool { return len(r.From) == 1 && same(r, want) }) {
		return nil, ErrHas
	}
	rule := fmt.Sprintf("- from: [%s]\n  run: any\n", want.From[0])
	if len(programs) > 0 {
		rule = fmt.Sprintf("- from: [%s]\n  run: {process: [%s]}\n", want.From[0], quoted(programs))
	}
	if _, err := Read([]byte("rules:\n" + rule)); err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			err = errors.New(e.Text) // its line is of no file
		}
		return nil, err
	}
	root, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	list, indent := rulesOf(root)
	lines := bytes.SplitAfter(text, []byte("\n"))
	switch {
	case list == nil:
		return nil, errByHand
	case len(list.Values) == 0 && list.IsFlowStyle:
		at := list.GetToken().Position.Line - 1
		lines[at] = append(bytes.Replace(lines[at], []byte("[]"), nil, 1), rule...)
		lines[at] = bytes.Replace(lines[at], []byte("rules: \n"), []byte("rules:\n"), 1)
	case list.IsFlowStyle:
		return nil, errByHand
	default:
		last := list.Values[len(list.Values)-1]
		at := endOf(last, len(lines))
		if n := len(lines); at == n && n > 0 && len(lines[n-1]) > 0 && !bytes.HasSuffix(lines[n-1], []byte("\n")) {
			lines[n-1] = append(lines[n-1], '\n')
		}
		rule = strings.ReplaceAll(strings.TrimSuffix(rule, "\n"), "\n", "\n"+indent)
		lines = slices.Insert(lines, at, []byte(indent+rule+"\n"))
	}
	wants := old
	wants.Rules = append(slices.Clone(old.Rules), want)
	return written(bytes.Join(lines, nil), wants)
}

// Remove takes a key out of all rules of a file; rules that name nobody else go. It tells whether
// there were any.
func Remove(text []byte, key string) (out []byte, had bool, err error) {
	old, err := Read(text)
	if err != nil {
		return nil, false, err
	}
	root, err := parse(string(text))
	if err != nil {
		return nil, false, err
	}
	list, _ := rulesOf(root)
	if list == nil {
		return nil, false, errByHand
	}
	wants := old
	wants.Rules = nil
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, r := range slices.Backward(old.Rules) {
		rest := slices.DeleteFunc(slices.Clone(r.From), func(f string) bool { return f == Key+key })
		switch {
		case len(rest) == len(r.From):
		case list.IsFlowStyle:
			return nil, true, errByHand
		case len(rest) == 0:
			from, to := r.Line-1, endOf(list.Values[i], len(lines))
			lines = slices.Delete(lines, from, to)
		default:
			at := lineWith(lines, r.Line-1, Key+key)
			if at < 0 {
				return nil, true, errByHand
			}
			lines[at] = without(lines[at], Key+key)
		}
		had = had || len(rest) < len(r.From)
		if len(rest) > 0 {
			r.From = rest
			wants.Rules = append(wants.Rules, r)
		}
	}
	if !had {
		return text, false, nil
	}
	slices.Reverse(wants.Rules)
	if len(wants.Rules) == 0 {
		at := list.GetToken().Position.Line - 1
		for at > 0 && !bytes.HasPrefix(lines[at], []byte("rules:")) {
			at--
		}
		lines[at] = []byte("rules: []\n")
	}
	out, err = written(bytes.Join(lines, nil), wants)
	return out, true, err
}

var errByHand = errors.New("the rules are not written one below the other; change them with `peer trust edit`")

// written checks that a changed text says what was meant.
func written(text []byte, wants Policy) ([]byte, error) {
	got, err := Read(text)
	if err != nil || !equal(got, wants) {
		return nil, errByHand
	}
	return text, nil
}

func same(a, b Rule) bool {
	a.Line, b.Line = 0, 0
	return reflect.DeepEqual(a, b)
}

func equal(a, b Policy) bool {
	return a.Unsigned == b.Unsigned && a.Finish == b.Finish && slices.EqualFunc(a.Rules, b.Rules, same)
}

// rulesOf finds the list of rules, and what stands before its dashes.
func rulesOf(root ast.Node) (list *ast.SequenceNode, indent string) {
	m, ok := root.(ast.MapNode)
	if !ok {
		return nil, ""
	}
	for it := m.MapRange(); it.Next(); {
		if it.Key().GetToken().Value == "rules" {
			list, _ = it.Value().(*ast.SequenceNode)
		}
	}
	if list != nil && !list.IsFlowStyle {
		indent = strings.Repeat(" ", max(0, list.GetToken().Position.Column-1))
	}
	return list, indent
}

// endOf is the line behind a rule's last one, from 0: with what is above the next one's comments.
func endOf(rule ast.Node, lines int) int {
	last := wrong(rule, "").Line
	ast.Walk(lastLine{&last}, rule)
	return min(last, lines)
}

type lastLine struct{ line *int }

// Visit implements ast.Visitor.
func (l lastLine) Visit(n ast.Node) ast.Visitor {
	if n == nil {
		return nil
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		*l.line = max(*l.line, t.Position.Line)
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		if n.End != nil {
			*l.line = max(*l.line, n.End.Position.Line)
		}
	case *ast.MappingNode:
		if n.End != nil {
			*l.line = max(*l.line, n.End.Position.Line)
		}
	}
	return l
}

func lineWith(lines [][]byte, from int, word string) int {
	for i := from; i < len(lines); i++ {
		if bytes.Contains(lines[i], []byte(word)) {
			return i
		}
	}
	return -1
}

// without takes an item out of a line of a list.
func without(line []byte, item string) []byte {
	text := string(line)
	if trimmed := strings.TrimSpace(text); trimmed == "- "+item {
		return nil
	}
	for _, w := range []string{", " + item, item + ", ", item + ",", "," + item} {
		if i := strings.Index(text, w); i >= 0 {
			return []byte(text[:i] + text[i+len(w):])
		}
	}
	return line
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(out, ", ")
}
