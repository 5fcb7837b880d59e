package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/taskstate/spell"
)

type logsFlags struct {
	stream, since, task string
}

func (f *logsFlags) register(fl *pflag.FlagSet, q *api.LogQuery) {
	fl.StringVar(&f.stream, "stream", "", "only stdout or stderr")
	fl.IntVarP(&q.Tail, "tail", "n", 0, "only the last `N` lines that each task wrote to stdout, and to stderr")
	fl.StringVar(&f.since, "since", "", "only lines of the last `DURATION`, as in 10m, or since a time: 15:04, '2006-01-02 15:04'")
	fl.BoolVar(&q.Times, "timestamps", false, "begin each line with its time, by its peer's clock, right to a tenth of a second")
}

// into checks what was said and adds it to a query.
func (f *logsFlags) into(q *api.LogQuery, fl *pflag.FlagSet, now time.Time) (err error) {
	switch f.stream {
	case "", "stdout", "stderr":
		q.Stream = f.stream
	default:
		return api.Errorf(api.Usage, "--stream %q: expected stdout or stderr", f.stream)
	}
	if fl.Changed("tail") && (q.Tail < 1 || q.Tail > tasklog.MaxTail) {
		return api.Errorf(api.Usage, "--tail %d: expected 1 to %d lines; for what comes from now on, type --since 0s -f", q.Tail, tasklog.MaxTail)
	}
	if fl.Changed("since") {
		q.Since, err = since(f.since, now)
	}
	return err
}

// of adds the task that was asked for to the jobs.
func (f *logsFlags) of(ids []string) ([]string, error) {
	if f.task == "" {
		return ids, nil
	}
	if strings.HasPrefix(f.task, "-") {
		return nil, api.Errorf(api.Usage, "--task %s: expected the number of a slot, from 1, or an item of an array", printable(f.task))
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		if strings.Contains(id, ".") {
			return nil, api.Errorf(api.Usage, "%s is a task already; leave out --task %s", printable(id), printable(f.task))
		}
		out[i] = id + "." + f.task
	}
	return out, nil
}

// sinceForms are how a moment may be typed; without a zone it is this machine's.
var sinceForms = []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04", time.DateOnly}

// since reads a moment: so long ago, or a time.
func since(s string, now time.Time) (time.Time, error) {
	d, wrong := spell.Duration(s)
	if wrong == nil {
		return now.Add(-d), nil
	}
	for _, form := range sinceForms {
		if at, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return at, nil
		}
	}
	for _, form := range []string{"15:04", "15:04:05"} {
		at, err := time.ParseInLocation(form, s, now.Location())
		if err != nil {
			continue
		}
		at = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
		if at.After(now) {
			at = at.AddDate(0, 0, -1)
		}
		return at, nil
	}
	return now, api.Errorf(api.Usage, "--since %q: %v, or a time like 15:04, '2006-01-02 15:04' or 2006-01-02T15:04:05Z", s, wrong)
}

// timed is what writes lines with their times; with their tasks, too, if p does.
func timed(p *prefixer) *prefixer {
	if p == nil {
		p = newPrefixer()
		p.label = func(string) string { return "" }
	}
	p.times = true
	return p
}
