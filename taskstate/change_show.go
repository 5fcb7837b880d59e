package taskstate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate/spell"
)

// What is here shows the parts of a job to people, about as a job file spells them.

func number(n int) string {
	if n == 0 {
		return ""
	}
	return itoa(n)
}

func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

func span(ms int64) string {
	if ms == 0 {
		return ""
	}
	return spell.Span(ms)
}

func list[S ~string](items []S) string {
	if len(items) == 0 {
		return ""
	}
	var b strings.Builder
	for i, s := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(item(string(s)))
	}
	return "[" + b.String() + "]"
}

// item is one of a list, in quotes where it could be taken for several, or for none.
func item(s string) string {
	if s == "" || strings.ContainsAny(s, ",[]\"") || strings.TrimSpace(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// text is JSON without what would not be read: it is the form nobody mistakes for another value.
func text(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a shell's && stays what it is
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func showArray(j *Job) string {
	if !j.Numbered {
		return ""
	}
	return itoa(j.First) + "-" + itoa(j.First+j.Count-1)
}

func showMatrix(j *Job) string {
	parts := make([]string, len(j.Matrix))
	for i, a := range j.Matrix {
		parts[i] = a.Name + ": " + list(a.Values)
	}
	return braced(parts)
}

func showResources(j *Job) string {
	var parts []string
	if n := j.Resources.MilliCPU; n != 0 {
		parts = append(parts, "cpus: "+strconv.FormatFloat(float64(n)/1000, 'f', -1, 64))
	}
	if n := j.Resources.Memory; n != 0 {
		parts = append(parts, "memory: "+bytesOf(n))
	}
	if n := j.Resources.Disk; n != 0 {
		parts = append(parts, "disk: "+bytesOf(n))
	}
	if j.Resources.Others != "" {
		parts = append(parts, strings.ReplaceAll(strings.ReplaceAll(string(j.Resources.Others), "=", ": "), ",", ", "))
	}
	return braced(parts)
}

// bytesOf is a size in the largest unit that leaves it whole.
func bytesOf(n int64) string {
	units := [...]string{"", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && n%1024 == 0 {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}

func showRestart(j *Job) string {
	r := j.restarting()
	parts := []string{"condition: " + string(r.Condition)}
	if r.Attempts != 0 {
		parts = append(parts, "attempts: "+itoa(r.Attempts))
	}
	if r.Delay != 0 {
		parts = append(parts, "delay: "+spell.Span(r.Delay))
	}
	if r.Window != 0 {
		parts = append(parts, "window: "+spell.Span(r.Window))
	}
	return braced(parts)
}

func showUnreachable(j *Job) string {
	if j.Unreachable.Wait {
		return "{wait: true}"
	}
	return "{replace_after: " + spell.Span(j.Unreachable.ReplaceAfter) + "}"
}

func showUpdate(j *Job) string {
	u := j.Updating()
	return braced([]string{
		"parallelism: " + itoa(u.Parallelism), "delay: " + spell.Span(u.Delay), "monitor: " + spell.Span(u.Monitor),
		"max_failure_ratio: " + strconv.FormatFloat(u.MaxFailureRatio, 'f', -1, 64), "on_failure: " + string(u.OnFailure), "order: " + string(u.Order),
	})
}

func showSchedule(j *Job) string {
	if j.Schedule == nil {
		return ""
	}
	s := j.Schedule.complete()
	return braced([]string{"cron: " + strconv.Quote(s.Cron), "zone: " + s.Zone, "overlap: " + string(s.Overlap)})
}

func braced(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// How much of a long value is shown: so many bytes from a little before the first difference.
const (
	shownBytes = 120
	shownLead  = 24
)

// around cuts two long texts to what surrounds the place where they begin to differ, so that the
// difference is what is seen.
func around(a, b string) (string, string) {
	if len(a) <= shownBytes && len(b) <= shownBytes {
		return a, b
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return cutAt(a, n-shownLead), cutAt(b, n-shownLead)
}

func cutAt(s string, from int) string {
	head, tail := "", ""
	if from = min(from, len(s)); from > 0 {
		for from < len(s) && !utf8.RuneStart(s[from]) {
			from++
		}
		head, s = "…", s[from:]
	}
	if len(s) > shownBytes {
		end := shownBytes
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		tail, s = "…", s[:end]
	}
	return head + s + tail
}

func showOutputs(j *Job) string {
	o := j.outputs()
	if o == nil {
		return ""
	}
	s := list(o.Globs) + ", keep " + itoa(o.Keep)
	if o.Missing != MissingFails {
		s += ", missing " + string(o.Missing)
	}
	return s
}
