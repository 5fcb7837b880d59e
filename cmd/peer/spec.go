package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/api"
)

func specText(line func(k, v string), s *api.Spec) {
	if s == nil {
		return
	}
	line("runs", s.Line()) // or who knows what it runs
	if s.Stdin {
		line("stdin", "that of the command that submitted it")
	}
	line("dir", s.Dir)
	line("env", strings.Join(s.Env, ", "))
	line("inputs", strings.Join(s.Inputs, ", "))
	line("secrets", strings.Join(s.Secrets, ", "))
	line("needs", needsText(s))
	line("keeps", keepsText(s))
	line("only on", strings.Join(s.Constraints, " and "))
}

func needsText(s *api.Spec) string {
	var parts []string
	if s.CPUs > 0 {
		parts = append(parts, countOfNumber(s.CPUs, "cpu"))
	}
	if s.Memory > 0 {
		parts = append(parts, bytesText(s.Memory)+" of memory")
	}
	if s.Disk > 0 {
		parts = append(parts, bytesText(s.Disk)+" of disk")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Others)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.Others[name], name))
	}
	return strings.Join(parts, ", ")
}

// keepsText says which files are kept, and how often.
func keepsText(s *api.Spec) string {
	what, copies := strings.Join(s.Outputs, ", "), fmt.Sprintf("%d copies", s.Copies)
	if s.Copies == 1 {
		copies = "one copy"
	}
	switch {
	case s.Copies == 0:
		return ""
	case what == "":
		what = "what it prints"
	}
	return what + " in " + copies
}

func countOfNumber(n float64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}
