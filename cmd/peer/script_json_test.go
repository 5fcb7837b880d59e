//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// readJSON reads what a command printed: one value, or with JSON lines a list of them.
func readJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var all []any
	for {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("not JSON: %w\n%s", err, text)
		}
		all = append(all, v)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

// lookUp follows a path through v; what is not there is null.
func lookUp(v any, path string) (any, error) {
	for _, step := range strings.Split(path, ".") {
		switch x := v.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			v = x[step]
		case []any:
			v = element(x, step)
		case string:
			if step != "len" {
				return nil, fmt.Errorf("%s: %q is a text", path, x)
			}
			v = json.Number(strconv.Itoa(len(x)))
		default:
			return nil, fmt.Errorf("%s: %v has no parts", path, x)
		}
	}
	return v, nil
}

func element(list []any, step string) any {
	if step == "len" {
		return json.Number(strconv.Itoa(len(list)))
	}
	if i, err := strconv.Atoi(step); err == nil {
		if i < 0 || i >= len(list) {
			return nil
		}
		return list[i]
	}
	key, value, ok := strings.Cut(step, "=")
	if !ok {
		return nil
	}
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && textOf(m[key]) == value {
			return e
		}
	}
	return nil
}

func textOf(v any) string {
	switch x := v.(type) {
	case nil:
		return "-"
	case string:
		return x
	case json.Number:
		return x.String()
	case bool:
		return strconv.FormatBool(x)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// holds tells whether text has, at each path, the value after it; why says which has not.
func holds(text string, pairs []string) (ok bool, why string) {
	v, err := readJSON(text)
	if err != nil {
		return false, err.Error()
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		got, err := lookUp(v, pairs[i])
		if err != nil {
			return false, err.Error()
		}
		part, any := strings.CutPrefix(pairs[i+1], "~")
		if text := textOf(got); text != pairs[i+1] && !(any && strings.Contains(text, part)) {
			return false, fmt.Sprintf("%s is %s, expected %s", pairs[i], textOf(got), pairs[i+1])
		}
	}
	return true, ""
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, args, 2, "[!] json PATH VALUE …")
	if ok, why := holds(ts.ReadFile("stdout"), args); ok == neg {
		ts.Fatalf("%s\n%s", why, ts.ReadFile("stdout"))
	}
}

func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "get VAR PATH")
	text := ts.ReadFile("stdout")
	if args[1] == "word" {
		if len(strings.Fields(text)) != 1 || strings.Count(text, "\n") != 1 {
			ts.Fatalf("want one word on one line, got %q", text)
		}
		ts.Setenv(args[0], strings.TrimSpace(text))
		return
	}
	v, err := readJSON(text)
	ts.Check(err)
	got, err := lookUp(v, args[1])
	ts.Check(err)
	if got == nil {
		ts.Fatalf("nothing at %s in\n%s", args[1], text)
	}
	ts.Setenv(args[0], textOf(got))
}

func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	var cut int
	for cut = range args {
		if args[cut] == "=>" {
			break
		}
	}
	if neg || cut < 2 || cut+2 >= len(args) {
		ts.Fatalf("usage: await NAME ARG… => PATH VALUE …")
	}
	line, pairs := append([]string{args[0], "-o", "json"}, args[1:cut]...), args[cut+1:]
	p := scriptProcesses(ts)
	deadline := time.Now().Add(patience)
	for {
		out, talk, code := p.quietly(ts, line)
		ok, why := holds(out, pairs)
		if code == 0 && ok {
			fmt.Fprint(ts.Stdout(), out)
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within %s: exit %d, %s\n%s%s", patience, code, why, out, talk)
		}
		<-time.After(25 * time.Millisecond)
	}
}

// scriptPick leaves of what was printed the part at a path.
func scriptPick(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "pick PATH")
	v, err := readJSON(ts.ReadFile("stdout"))
	ts.Check(err)
	part, err := lookUp(v, args[0])
	ts.Check(err)
	if part == nil {
		ts.Fatalf("nothing at %s in\n%s", args[0], ts.ReadFile("stdout"))
	}
	ts.Check(json.NewEncoder(ts.Stdout()).Encode(part))
}

// scriptOnce reads what a watch printed.
func scriptOnce(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "once")
	type state struct{ Kind, Job, Task, State string }
	seen := map[state]string{}
	for _, line := range strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n") {
		var e struct {
			state
			Snapshot bool
		}
		ts.Check(json.Unmarshal([]byte(line), &e))
		if e.Snapshot || e.Kind != "job" && e.Kind != "task" {
			continue
		}
		if before := seen[e.state]; before != "" {
			ts.Fatalf("told twice:\n%s\n%s", before, line)
		}
		seen[e.state] = line
	}
	if len(seen) == 0 {
		ts.Fatalf("no events were printed")
	}
}
