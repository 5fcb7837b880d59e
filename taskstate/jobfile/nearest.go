package jobfile

import "strings"

// homes says where a key belongs that stands in the wrong place.
func homes() map[string]string {
	m := map[string]string{
		"process": "under run", "noop": "under run", "command": "under run.process", "env": "under run.process", "dir": "under run.process",
		"shell": "under run.process", "duration": "under run.noop", "cpus": "under resources", "memory": "under resources",
		"replace_after": "under unreachable", "wait": "under unreachable", "strategy": "under placement", "max_per_peer": "under placement",
		"over": "under placement", "gpus": "under resources", "condition": "under restart", "attempts": "under restart", "window": "under restart",
		"delay": "under restart or update", "parallelism": "under update", "monitor": "under update", "max_failure_ratio": "under update",
		"on_failure": "under update", "order": "under update", "cron": "under schedule", "zone": "under schedule", "overlap": "under schedule",
	}
	for _, k := range []string{"name", "type", "count", "each", "each_line", "run", "resources", "timeout", "parallel", "unreachable", "placement", "matrix", "constraints", "restart", "max_fails", "update", "after", "schedule", "priority"} {
		m[k] = "at the top"
	}
	return m
}

// others are the words other systems use for ours.
func others() map[string]string {
	return map[string]string{
		"cmd": "command", "args": "command", "exec": "process", "environment": "env", "cwd": "dir", "workdir": "dir", "working_dir": "dir",
		"cpu": "cpus", "mem": "memory", "ram": "memory", "gpu": "gpus", "replicas": "count", "slots": "count", "instances": "count", "array": "count",
		"items": "each", "foreach": "each", "max_parallel": "parallel", "concurrency": "parallel", "retries": "restart", "depends_on": "after",
		"cron": "schedule", "image": "container", "affinity": "constraints", "constraint": "constraints", "requires": "after", "needs": "after",
		"restart_policy": "restart", "update_config": "update", "backoff": "delay", "interval": "delay", "max_attempts": "attempts", "policy": "condition",
		"failure_action": "on_failure", "on_fail": "on_failure", "timezone": "zone", "time_zone": "zone", "tz": "zone", "max_failures": "max_fails", "params": "matrix",
		"always": "any", "never": "none", "onfailure": "on-failure", "on_failure": "on-failure", "daemonset": "global", "deployment": "service", "job": "batch", "sleep": "noop",
	}
}

// nearest picks the word a person probably meant: another system's name for it, or one a few slips of the finger away. "" if none is near.
func nearest(word string, words []string) string {
	low := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	if w := others()[low]; indexOf(words, w) >= 0 {
		return w
	}
	best, near := "", 1+min(len(low), 12)/4
	if len(low) > 64 {
		return ""
	}
	for _, w := range words {
		if d := slips(low, w); d < near || d == near && best == "" {
			best, near = w, d
		}
	}
	return best
}

// slips counts insertions, deletions, changes and swaps of neighbours between two words.
func slips(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
