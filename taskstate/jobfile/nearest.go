package jobfile

import (
	"strings"

	"github.com/coveyproject/covey/taskstate/spell"
)

// homes says where a key belongs that stands in the wrong place.
func homes() map[string]string {
	m := map[string]string{
		"process": "under run", "noop": "under run", "command": "under run.process", "env": "under run.process", "dir": "under run.process",
		"shell": "under run.process", "script": "under run.process", "duration": "under run.noop", "cpus": "under resources", "memory": "under resources", "disk": "under resources",
		"replace_after": "under unreachable", "wait": "under unreachable", "strategy": "under placement", "max_per_peer": "under placement",
		"over": "under placement", "gpus": "under resources", "condition": "under restart", "attempts": "under restart", "window": "under restart",
		"delay": "under restart or update", "parallelism": "under update", "monitor": "under update", "max_failure_ratio": "under update",
		"on_failure": "under update", "order": "under update", "cron": "under schedule", "zone": "under schedule", "overlap": "under schedule",
		"processes": "under limits", "core": "under limits", "file_size": "under limits", "globs": "under outputs", "missing": "under outputs", "file": "under secrets.NAME",
	}
	for _, k := range []string{"name", "type", "count", "array", "each", "each_line", "run", "resources", "isolate", "net", "limits", "timeout", "parallel", "unreachable", "placement", "matrix", "constraints", "restart", "max_fails", "outputs", "secrets", "keep", "keep_logs", "update", "after", "schedule", "priority"} {
		m[k] = "at the top"
	}
	return m
}

// others are the words other systems use for ours.
func others() map[string]string {
	return map[string]string{
		"cmd": "command", "args": "command", "exec": "process", "environment": "env", "cwd": "dir", "workdir": "dir", "working_dir": "dir",
		"cpu": "cpus", "mem": "memory", "ram": "memory", "storage": "disk", "gpu": "gpus", "replicas": "count", "slots": "count", "instances": "count",
		"items": "each", "foreach": "each", "max_parallel": "parallel", "concurrency": "parallel", "retries": "restart", "depends_on": "after",
		"cron": "schedule", "image": "container", "affinity": "constraints", "constraint": "constraints", "requires": "after", "needs": "after",
		"restart_policy": "restart", "update_config": "update", "backoff": "delay", "interval": "delay", "max_attempts": "attempts", "policy": "condition",
		"failure_action": "on_failure", "on_fail": "on_failure", "timezone": "zone", "time_zone": "zone", "tz": "zone", "max_failures": "max_fails", "params": "matrix",
		"always": "any", "never": "none", "onfailure": "on-failure", "on_failure": "on-failure", "daemonset": "global", "deployment": "service", "job": "batch", "sleep": "noop",
		"artifacts": "outputs", "output_files": "outputs", "transfer_output_files": "outputs", "publish": "outputs", "results": "outputs", "out": "outputs", "replication": "keep",
		"copies": "keep", "paths": "globs", "files": "globs", "patterns": "globs", "if_missing": "missing", "secret": "secrets", "credentials": "secrets", "error": "fail", "ignore": "ok", "warning": "warn",
	}
}

// nearest picks the word a person probably meant: another system's name for it, or one a few slips
// of the finger away. "" if none is near.
func nearest(word string, words []string) string {
	low := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	if w := others()[low]; indexOf(words, w) >= 0 {
		return w
	}
	return spell.Nearest(low, words)
}
