package testnet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
)

// settle waits until every accepted job has ended in every peer's eyes and all lists are equal.
func (s *soak) settle(ctx context.Context) {
	began := time.Now()
	why := ""
	err := s.within(ctx, settleLimit, func(ctx context.Context) error {
		for {
			if why = s.unsettled(ctx); why == "" {
				return nil
			}
			if err := pause.For(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
	})
	s.mu.Lock()
	s.report.Settled = time.Since(began).Seconds()
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.trouble("%s after all peers were back: %s", settleLimit, why)
	}
}

// unsettled says what is still under way or differs, "" if nothing.
func (s *soak) unsettled(ctx context.Context) string {
	var first string
	for k := 1; k <= s.net.N(); k++ {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		list, err := s.net.Client(k).Jobs(one)
		cancel()
		if err != nil {
			return fmt.Sprintf("peer %d: %v", k, err)
		}
		if why := s.open(list.Jobs); why != "" {
			return fmt.Sprintf("peer %d: %s", k, why)
		}
		text := listText(list.Jobs)
		if first == "" {
			first = text
		}
		if text != first {
			return fmt.Sprintf("the lists of peers 1 and %d differ:\n%s", k, firstDifference(first, text))
		}
	}
	return ""
}

// open names an accepted job without an end.
func (s *soak) open(rows []api.Job) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for i := range rows {
		row := &rows[i]
		if seen[row.ID] {
			return "lists job " + row.ID + " twice"
		}
		seen[row.ID] = true
		if !row.Over() {
			return fmt.Sprintf("job %s (%s) is %s, tasks %v", row.ID, row.Name, row.State, row.Tasks)
		}
	}
	for id, x := range s.jobs {
		if x.accepted && x.ended == nil && !seen[id] && !x.withdrawn() {
			return fmt.Sprintf("job %s (%s) is not known", id, x.kind)
		}
	}
	return ""
}

// withdrawn jobs may be gone without a trace: cancelled while they were held.
func (x *soakJob) withdrawn() bool { return x.cancel && x.told }

func listText(rows []api.Job) string {
	var lines []string
	for _, r := range rows {
		exit := "-"
		if r.ExitCode != nil {
			exit = fmt.Sprint(*r.ExitCode)
		}
		ended := ""
		if r.Ended != nil {
			ended = r.Ended.String()
		}
		lines = append(lines, fmt.Sprint(r.ID, " ", r.State, " ", r.Tasks, " exit ", exit, " cancelled ", r.Cancelled, " ended ", ended))
	}
	return strings.Join(lines, "\n")
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		l, r := "(nothing)", "(nothing)"
		if i < len(x) {
			l = x[i]
		}
		if i < len(y) {
			r = y[i]
		}
		if l != r {
			return "  " + l + "\n  " + r
		}
	}
	return ""
}

// judgeAll decides about every job, its runs, its output and its files.
func (s *soak) judgeAll(ctx context.Context) {
	for k := 1; k <= s.net.N(); k++ {
		s.noteEnds(ctx, k) // ends of the last second, and contradictions
	}
	for _, id := range s.order {
		x := s.jobs[id]
		if !x.accepted {
			continue
		}
		if lost, why := x.judge(); why != "" {
			if lost {
				s.report.Lost++
			} else {
				s.report.Wrong++
			}
			s.trouble("job %s (%s): %s", id, x.kind, why)
		}
		if x.marks {
			s.judgeRuns(id, x)
		}
	}
	s.judgeOutputs(ctx)
	s.judgeFiles(ctx)
	left := strayProcesses(s.longSleep())
	s.report.Strays = len(left)
	for _, p := range left {
		s.trouble("a process of a cancelled job is left: %s", p)
	}
}

// judge says what is wrong with a job's end, "" if nothing.
func (x *soakJob) judge() (lost bool, why string) {
	e := x.ended
	switch {
	case e == nil && x.withdrawn():
		return false, ""
	case e == nil:
		return true, "was accepted and never ended"
	case x.cancel && x.told && e.Cancelled == "":
		return false, "was cancelled, and shows no sign of it"
	case x.end != "" && e.State != x.end:
		return false, fmt.Sprintf("ended as %s instead of %s, tasks %v", e.State, x.end, e.Tasks)
	case x.end == "failed" && *e.ExitCode != x.exit:
		return false, fmt.Sprintf("exit code %d instead of %d", *e.ExitCode, x.exit)
	case x.end == "complete" && e.Tasks["complete"] != x.job.Count:
		return false, fmt.Sprintf("complete with tasks %v of %d", e.Tasks, x.job.Count)
	}
	return false, ""
}

// judgeRuns counts the processes that really began, by the marks they left.
func (s *soak) judgeRuns(id string, x *soakJob) {
	text, _ := os.ReadFile(filepath.Join(s.marks(), id)) // none began: no file
	runs := countRuns(string(text))
	for slot := 1; slot <= x.job.Count; slot++ {
		n := runs[slot]
		s.report.Runs += n
		switch {
		case n > 1 && x.wait:
			s.report.Twice++
			s.trouble("job %s (%s): slot %d began %d times although it must not run twice:\n%s", id, x.kind, slot, n, text)
		case n > 1:
			s.report.Again++
		case n == 0 && x.ended != nil && x.ended.State == "complete":
			s.report.Wrong++
			s.trouble("job %s (%s): slot %d is complete and never began", id, x.kind, slot)
		}
	}
}

func countRuns(marks string) map[int]int {
	runs := map[int]int{}
	for line := range strings.SplitSeq(marks, "\n") {
		var slot int
		if _, err := fmt.Sscan(line, &slot); err == nil {
			runs[slot]++
		}
	}
	return runs
}

// outputSample is how many jobs' outputs are fetched and compared.
const outputSample = 30

// judgeOutputs compares the output of the last completed process jobs, asked of one peer, with what
// they must have written.
func (s *soak) judgeOutputs(ctx context.Context) {
	n := 0
	for _, id := range slices.Backward(s.order) {
		x := s.jobs[id]
		if x.kind != "processes" || x.ended == nil || x.ended.State != "complete" || n == outputSample {
			continue
		}
		n++
		if err := s.judgeOutput(ctx, id, x, 1+n%s.net.N()); err != nil {
			s.report.Wrong++
			s.trouble("job %s (%s): its output, asked of peer %d: %v", id, x.kind, 1+n%s.net.N(), err)
		}
	}
}

func (s *soak) judgeOutput(ctx context.Context, id string, x *soakJob, k int) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	got := map[string]*bytes.Buffer{}
	err := s.net.Client(k).Logs(ctx, id, api.LogQuery{Stream: "stdout"}, func(c api.LogChunk) error {
		if c.Error != nil {
			return fmt.Errorf("task %s: %w", c.Task, c.Error)
		}
		if got[c.Task] == nil {
			got[c.Task] = &bytes.Buffer{}
		}
		got[c.Task].Write(c.Data)
		return nil
	})
	if err != nil {
		return err
	}
	for slot := 1; slot <= x.job.Count; slot++ {
		want, found := fmt.Sprintf("out %d\n", slot), false
		for task, b := range got {
			if strings.HasPrefix(task, fmt.Sprintf("%s.%d.", id, slot)) {
				found = found || b.String() == want
			}
		}
		if !found {
			return fmt.Errorf("slot %d wrote nothing or something else", slot)
		}
	}
	return nil
}
