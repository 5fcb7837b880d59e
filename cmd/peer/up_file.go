package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/renameio/v2/maybe"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate/spell"
)

// upFileName is the file in the data folder that holds what `peer up` was told, for the next plain
// `peer up`. People may edit it: its keys are the flags of up, a typed flag goes before the
// environment, and that before the file.
const upFileName = "peer.yaml"

// maxUpFile is how large the file may be, in bytes: many times what all flags together need.
const maxUpFile = 16 << 10

const upFileHead = "# What `peer up` goes by when it is not told otherwise: its flags without the dashes. Remove a line for the default.\n"

// Sources of a flag's value, as annotations.
const (
	fromEnv  = "from-environment"
	fromFile = "from-file"
)

// onceOnly are flags that say something of one start alone. They are never written, and mean
// nothing in the file.
var onceOnly = []string{"join", "bootstrap", "invite", "new-identity", "moved", "open", "detach", "data", "output", "once", "testnet", "help"}

// upFile is the file as it was read: where each key's lines begin and end, and its words.
type upFile struct {
	path  string
	lines []string
	keys  []upKey
}

// upKey is one key of the file. Its lines are from begin up to, and without, end, counted from 0.
type upKey struct {
	name       string
	words      []string
	list       bool
	begin, end int
	column     int
}

// readUpFile reads the file strictly. None there is an empty one.
func readUpFile(data string) (*upFile, error) {
	u := &upFile{path: filepath.Join(data, upFileName)}
	if st, err := os.Stat(data); err != nil || !st.IsDir() {
		return u, nil //nolint:nilerr // what makes the folder says what is wrong with it
	}
	b, err := readFile(u.path, maxUpFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u, nil
	case err != nil:
		return nil, api.Errorf(api.Failed, "cannot read what `peer up` was told before: %v", err)
	case len(b) > maxUpFile:
		return nil, api.Errorf(api.Usage, "%s is larger than %d bytes; remove what does not belong there", u.path, maxUpFile)
	}
	u.lines = strings.SplitAfter(string(b), "\n")
	return u, u.parse(b)
}

func (u *upFile) parse(b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // a bug of the YAML library must not be one of ours
			err = u.wrong(1, 1, fmt.Sprintf("it cannot be read as YAML (%v)", p))
		}
	}()
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		if at, ok := errors.AsType[*yaml.SyntaxError](err); ok && at.Token != nil {
			return u.wrong(at.Token.Position.Line, at.Token.Position.Column, at.Message)
		}
		return u.wrong(1, 1, err.Error())
	}
	for i, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		at := doc.Body.GetToken().Position
		m, ok := doc.Body.(ast.MapNode)
		if !ok || i > 0 {
			return u.wrong(at.Line, at.Column, "expected one list of KEY: VALUE, with the flags of `peer up` as keys")
		}
		for it := m.MapRange(); it.Next(); {
			if err := u.read(it.Key(), it.Value()); err != nil {
				return err
			}
		}
	}
	for i := range u.keys {
		u.keys[i].end = u.endOf(i)
	}
	return nil
}

// read takes one key with its value.
func (u *upFile) read(key ast.MapKeyNode, value ast.Node) error {
	at := key.GetToken().Position
	k := upKey{name: key.GetToken().Value, begin: at.Line - 1, column: at.Column}
	nodes := []ast.Node{value}
	if list, ok := value.(*ast.SequenceNode); ok {
		nodes, k.list = list.Values, true
	}
	for _, n := range nodes {
		switch n := n.(type) {
		case *ast.StringNode:
			k.words = append(k.words, n.Value)
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			k.words = append(k.words, n.GetToken().Value)
		default:
			p := n.GetToken().Position
			return u.wrong(p.Line, p.Column, fmt.Sprintf("%s: expected a word, a number, or a list of them", spell.Clip(k.name)))
		}
	}
	u.keys = append(u.keys, k)
	return nil
}

// endOf is where a key's lines end: at the next line that begins at the margin with anything but an
// item of its list.
func (u *upFile) endOf(key int) int {
	end := u.keys[key].begin + 1
	for end < len(u.lines) && strings.TrimSpace(u.lines[end]) != "" && strings.ContainsAny(u.lines[end][:1], " \t-]") {
		end++
	}
	return end
}

func (u *upFile) wrong(line, column int, what string) error {
	return api.Errorf(api.Usage, "%s:%d:%d: %s", u.path, line, column, what)
}

// into gives every flag that was neither typed nor in the environment what the file says.
func (u *upFile) into(flags *pflag.FlagSet) error {
	for _, k := range u.keys {
		f := flags.Lookup(k.name)
		if f == nil || slices.Contains(onceOnly, k.name) {
			what := fmt.Sprintf("`peer up` remembers no %q", spell.Clip(k.name))
			if near := spell.Nearest(k.name, rememberable(flags)); near != "" && near != k.name {
				what += fmt.Sprintf(" (did you mean %s?)", near)
			}
			return u.wrong(k.begin+1, k.column, what)
		}
		_, repeats := f.Value.(pflag.SliceValue)
		if k.list && !repeats {
			return u.wrong(k.begin+1, k.column, fmt.Sprintf("%s: expected one value, not a list", k.name))
		}
		if f.Changed {
			continue
		}
		for _, w := range k.words {
			if err := flags.Set(k.name, w); err != nil {
				return u.wrong(k.begin+1, k.column, err.Error())
			}
		}
		mark(f, fromFile)
	}
	return nil
}

// rememberable are the flags that the file may have as keys.
func rememberable(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(onceOnly, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

func mark(f *pflag.Flag, source string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[source] = []string{"1"}
}

// remembered is one flag that was typed and is kept for the next start, with what the file said
// before; was is nil if nothing.
type remembered struct {
	name     string
	now, was []string
}

// upMemory is what one start takes from the file and leaves in it.
type upMemory struct {
	file  *upFile
	flags *pflag.FlagSet
	news  []remembered
}

// recallUp reads the file and completes the flags of `peer up` by it. With --once it is left as it
// is.
func recallUp(data string, flags *pflag.FlagSet) (*upMemory, error) {
	file, err := readUpFile(data)
	if err == nil {
		err = file.into(flags)
	}
	if err != nil {
		return nil, err
	}
	m := &upMemory{file: file, flags: flags}
	if once, _ := flags.GetBool("once"); !once {
		m.news = file.news(flags)
	}
	return m, nil
}

// keep writes what is new. The caller holds the data folder's lock.
func (m *upMemory) keep() error { return m.file.keep(m.news) }

// say tells what is remembered from now on, and what this start goes by.
func (m *upMemory) say(w io.Writer) { m.file.say(w, m.news, m.flags) }

// news are the flags that were typed and say something else than the file.
func (u *upFile) news(flags *pflag.FlagSet) (all []remembered) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Annotations[fromEnv] != nil || f.Annotations[fromFile] != nil || slices.Contains(onceOnly, f.Name) || f.Name == "verbose" {
			return
		}
		n := remembered{name: f.Name, now: []string{f.Value.String()}}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			n.now = list.GetSlice()
		}
		if i := slices.IndexFunc(u.keys, func(k upKey) bool { return k.name == f.Name }); i >= 0 {
			n.was = u.keys[i].words
		}
		if !slices.Equal(n.now, n.was) {
			all = append(all, n)
		}
	})
	return all
}

// keep writes what was typed into the file: each key in its place, whatever else people wrote there
// as it was.
func (u *upFile) keep(news []remembered) error {
	if len(news) == 0 {
		return nil
	}
	lines := slices.Clone(u.lines)
	if len(lines) == 0 {
		lines = []string{upFileHead}
	}
	if last := lines[len(lines)-1]; last != "" && !strings.HasSuffix(last, "\n") {
		lines[len(lines)-1] = last + "\n"
	}
	for _, n := range news {
		var value any = n.now
		if len(n.now) == 1 {
			value = n.now[0]
		}
		b, err := yaml.MarshalWithOptions(map[string]any{n.name: value}, yaml.Flow(false))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(u.keys, func(k upKey) bool { return k.name == n.name })
		if i < 0 {
			lines = append(lines, string(b))
			continue
		}
		k := u.keys[i]
		lines[k.begin] = string(b)
		for at := k.begin + 1; at < k.end; at++ {
			lines[at] = ""
		}
	}
	return maybe.WriteFile(u.path, []byte(strings.Join(lines, "")), 0o600)
}

// say tells what is remembered from now on, and what a plain start goes by.
func (u *upFile) say(w io.Writer, news []remembered, flags *pflag.FlagSet) {
	now := make([]string, 0, len(news))
	for _, n := range news {
		text := fmt.Sprintf("--%s %s", n.name, strings.Join(n.now, ", "))
		if n.was != nil {
			text += fmt.Sprintf(" (was %s)", strings.Join(n.was, ", "))
		}
		now = append(now, text)
	}
	if len(now) > 0 {
		fmt.Fprintf(w, "remembered: %s; for a default again, remove its line from %s\n", printable(strings.Join(now, " ")), u.path)
	}
	var before []string
	flags.Visit(func(f *pflag.Flag) {
		if f.Annotations[fromFile] != nil {
			i := slices.IndexFunc(u.keys, func(k upKey) bool { return k.name == f.Name })
			before = append(before, fmt.Sprintf("--%s %s", f.Name, strings.Join(u.keys[i].words, ", ")))
		}
	})
	if len(before) > 0 {
		fmt.Fprintf(w, "as before: %s (%s)\n", printable(strings.Join(before, " ")), u.path)
	}
}
