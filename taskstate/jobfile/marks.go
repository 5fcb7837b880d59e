package jobfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/shell"
	"github.com/coveyproject/covey/taskstate/spell"
)

// A job whose tasks have items has marks in its command: {} is the item, and {NAME} the value of an
// axis of its matrix. Axes become references to their variables as the job is made. {} stays, and
// Process.Braces has the runner fill it in.

const itemVariable = "COVEY_ITEM"

// FillMarks fills in the marks of a command as its author wrote it. It is for callers that build a
// job, as Parse does, once. The error names the word, and how to write it.
func FillMarks(j *taskstate.Job) error {
	var errs []error
	for _, p := range fillMarks(j) {
		errs = append(errs, errors.New(p.msg))
	}
	return errors.Join(errs...)
}

func fillMarks(j *taskstate.Job) (ps checks) {
	if !items(j) {
		return nil
	}
	axes := axesOf(j)
	if j.Outputs != nil {
		for i, g := range j.Outputs.Globs {
			if text := markOf(axes, g); text != "" {
				ps.bad(fmt.Sprintf("outputs[%d]", i), "%s", notFilled(g))
			}
		}
	}
	p := j.Run.Process
	if p == nil {
		return ps
	}
	const at = "run.process.command"
	marks := withItem(axes)
	p.Command = slices.Clone(p.Command)
	for i, word := range p.Command {
		field, fill := fmt.Sprintf("%s[%d]", at, i), marks.FillWord
		if p.Shell {
			field, fill = at, func(line string) (string, error) { return shell.FillMarks(line, marks) }
		}
		filled, err := fill(word)
		if err != nil {
			ps.bad(field, "%v", err)
			continue
		}
		p.Command[i] = filled
	}
	p.Braces = true
	plainBraces(p)
	return ps
}

// items reports whether the tasks of a job have items.
func items(j *taskstate.Job) bool { return len(j.Each)+len(j.Matrix) > 0 || j.Numbered }

// axesOf are the marks of a job's axes, and the words that are almost one of them.
func axesOf(j *taskstate.Job) shell.Marks {
	names := make([]string, len(j.Matrix))
	for i, a := range j.Matrix {
		names[i] = a.Name
	}
	return func(word string) shell.Mark {
		switch low := strings.ToLower(word); {
		case word == "":
			return shell.Mark{}
		case slices.Contains(names, word):
			return shell.Mark{Variable: "COVEY_" + strings.ToUpper(word)}
		case slices.Contains(names, low):
			return shell.Mark{Near: low}
		case len(word) < 2: // any letter is near any other one
			return shell.Mark{}
		}
		return shell.Mark{Near: spell.Nearest(word, names)}
	}
}

// withItem adds {}, which the runner fills in.
func withItem(axes shell.Marks) shell.Marks {
	return func(word string) shell.Mark {
		if word == "" {
			return shell.Mark{Variable: itemVariable, Later: true}
		}
		return axes(word)
	}
}

// withoutItem adds {} as a mark that is to stay text.
func withoutItem(axes shell.Marks) shell.Marks {
	return func(word string) shell.Mark {
		if word == "" {
			return shell.Mark{Variable: itemVariable}
		}
		return axes(word)
	}
}

// markOf is the first mark in a text, as it is written there.
func markOf(marks shell.Marks, s string) string {
	for i := range len(s) {
		if text, m := marks.At(s, i); m != (shell.Mark{}) {
			return text
		}
	}
	return ""
}

// plainBraces has Braces say no more than that there is a {} to fill in: each command has one form.
func plainBraces(p *taskstate.Process) {
	if !p.Braces {
		return
	}
	if p.Shell {
		p.Braces = slices.ContainsFunc(p.Command, func(line string) bool {
			filled, err := shell.Fill(line, itemVariable)
			return err != nil || filled != line
		})
		return
	}
	text := make([]string, len(p.Command))
	for i, word := range p.Command {
		const escaped = "\x00" // no word has it
		word = strings.ReplaceAll(word, `\{}`, escaped)
		if strings.Contains(word, "{}") {
			return
		}
		text[i] = strings.ReplaceAll(word, escaped, "{}")
	}
	p.Command, p.Braces = text, false
}

// keepMarks is the command as an author writes it: FillMarks makes the same of it.
func keepMarks(j *taskstate.Job) ([]string, error) {
	p := *j.Run.Process
	if !items(j) {
		return withReferences(&p)
	}
	p.Command = slices.Clone(p.Command)
	plainBraces(&p)
	marks := withoutItem(axesOf(j))
	if p.Braces {
		marks = withItem(axesOf(j))
	}
	for i, word := range p.Command {
		if !p.Shell {
			p.Command[i] = marks.KeepWord(word)
			continue
		}
		line, err := shell.Keep(word, marks)
		if err != nil {
			return nil, fmt.Errorf("a job file cannot hold its line of shell: %w", err)
		}
		p.Command[i] = line
	}
	return p.Command, nil
}

// withReferences writes {} out where tasks have no items, and a job file takes it for text.
func withReferences(p *taskstate.Process) ([]string, error) {
	if !p.Braces {
		return p.Command, nil
	}
	out := make([]string, len(p.Command))
	for i, word := range p.Command {
		if p.Shell {
			filled, err := shell.Fill(word, itemVariable)
			if err != nil {
				return nil, err
			}
			out[i] = filled
			continue
		}
		const escaped = "\x00" // no word has it
		word = strings.ReplaceAll(word, `\{}`, escaped)
		out[i] = strings.ReplaceAll(strings.ReplaceAll(word, "{}", "${"+itemVariable+"}"), escaped, "{}")
	}
	return out, nil
}
