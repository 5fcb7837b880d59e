package api

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Spec is what a job runs and what it needs, as far as people want to see it at a glance: the
// values of its environment, its items and a script's text are not in it. GET /v1/jobs/{id}/file
// has all.
type Spec struct {
	Command     []string         `json:"command,omitempty"` // words, or one line for a shell
	Shell       bool             `json:"shell,omitempty"`
	Script      int              `json:"script,omitempty"` // bytes of the script that travels with the job
	Noop        float64          `json:"noop,omitempty"`   // seconds that a no-op takes
	Dir         string           `json:"dir,omitempty"`
	Env         []string         `json:"env,omitempty"` // names
	CPUs        float64          `json:"cpus"`
	Memory      int64            `json:"memory"` // bytes
	Disk        int64            `json:"disk"`
	Others      map[string]int64 `json:"others,omitempty"`
	Constraints []string         `json:"constraints,omitempty"`
	Inputs      []string         `json:"inputs,omitempty"`  // what its tasks find in their folders, by name
	Secrets     []string         `json:"secrets,omitempty"` // names
	Outputs     []string         `json:"outputs,omitempty"` // which files of its tasks are kept
	// Folders is what names the folders that files of its tasks are brought to: item, slot, or none
	// of a job of one task without items.
	Folders string `json:"folders,omitempty"`
	Copies  int    `json:"copies,omitempty"` // so often, or only what they print if it names no files
	Stdin   bool   `json:"stdin,omitempty"`  // it reads what the command that submitted it read
	// Unknown says that this peer does not know what the job runs, and who does; then all that only
	// they know is left out.
	Unknown string `json:"unknown,omitempty"`
}

// Line is what is run, as one would type it.
func (s *Spec) Line() string {
	switch {
	case s.Unknown != "":
		return s.Unknown
	case s.Shell:
		return strings.Join(s.Command, " ")
	case len(s.Command)+s.Script == 0:
		return fmt.Sprintf("nothing, for %gs", s.Noop)
	}
	words := make([]string, 0, len(s.Command)+1)
	if s.Script > 0 {
		words = append(words, fmt.Sprintf("(a script of %d bytes)", s.Script))
	}
	for _, w := range s.Command {
		words = append(words, quoted(w))
	}
	return strings.Join(words, " ")
}

// Sentence is all of it in one line.
func (s *Spec) Sentence() string {
	text := s.Unknown
	if text == "" {
		text = "runs " + s.Line()
	}
	if s.Stdin {
		text += ", with the stdin of the command that submitted it"
	}
	if len(s.Env) > 0 {
		text += "; sets " + strings.Join(s.Env, ", ")
	}
	if len(s.Secrets) > 0 {
		text += "; with the secrets " + strings.Join(s.Secrets, ", ")
	}
	switch {
	case len(s.Outputs) > 0:
		text += fmt.Sprintf("; keeps %s in %s", strings.Join(s.Outputs, ", "), copies(s.Copies))
	case s.Copies > 1:
		text += fmt.Sprintf("; keeps what it prints in %s", copies(s.Copies))
	}
	needs := make([]string, 0, 2)
	if s.CPUs > 0 {
		needs = append(needs, fmt.Sprintf("%g cpu", s.CPUs))
	}
	if s.Memory > 0 {
		needs = append(needs, fmt.Sprintf("%d MiB", s.Memory>>20))
	}
	if s.Disk > 0 {
		needs = append(needs, fmt.Sprintf("%d MiB of disk", s.Disk>>20))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Others)) {
		needs = append(needs, fmt.Sprintf("%d %s", s.Others[name], name))
	}
	if len(needs) > 0 {
		text += "; each task needs " + strings.Join(needs, ", ")
	}
	if len(s.Constraints) > 0 {
		text += "; only where " + strings.Join(s.Constraints, " and ")
	}
	return text
}

func copies(n int) string {
	if n == 1 {
		return "one copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// bare is a word that no shell reads as anything else.
var bare = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted writes a word so that a shell reads it back.
func quoted(w string) string {
	if bare.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// JobFile answers GET /v1/jobs/{id}/file: a job file that would do the same.
type JobFile struct {
	ID   string `json:"id"`
	File string `json:"file"`
}
