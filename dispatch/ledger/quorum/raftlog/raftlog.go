// Package raftlog hands the log lines of raft and of its store on to slog.
package raftlog

import (
	"context"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// logger hands raft's own log lines on to slog. Raft is talkative about peers that are away – a
// line per failed heartbeat – and that is an everyday thing here: those lines are for debugging.
// What it cannot write is said once, by who watches the disk.
type logger struct {
	hclog.Logger // a null logger: what is not overridden below says nothing
	to           *slog.Logger
	name         string
}

// New is a logger for raft, named so.
func New(to *slog.Logger) hclog.Logger {
	return &logger{Logger: hclog.NewNullLogger(), to: to, name: "raft"}
}

func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	if level >= hclog.Error {
		l.Error(msg, args...)
		return
	}
	l.to.Debug(l.name+": "+msg, args...)
}

func (l *logger) Debug(msg string, args ...any) { l.to.Debug(l.name+": "+msg, args...) }
func (l *logger) Info(msg string, args ...any)  { l.to.Debug(l.name+": "+msg, args...) }
func (l *logger) Warn(msg string, args ...any)  { l.to.Debug(l.name+": "+msg, args...) }

func (l *logger) Error(msg string, args ...any) {
	level := slog.LevelWarn
	for _, everyday := range []string{"failed to heartbeat", "failed to appendEntries", "failed to pipeline", "failed to make request", "failed to decode incoming", "failed to accept", "failed to send snapshot", "failed to start pipeline", "failed to commit logs", "failed to persist vote", "failed to append to logs"} {
		if strings.HasPrefix(msg, everyday) {
			level = slog.LevelDebug
		}
	}
	l.to.Log(context.Background(), level, l.name+": "+msg, args...)
}

func (l *logger) IsDebug() bool { return l.to.Enabled(context.Background(), slog.LevelDebug) }
func (l *logger) IsInfo() bool  { return l.IsDebug() }
func (l *logger) IsWarn() bool  { return l.IsDebug() }
func (l *logger) IsError() bool { return true }
func (l *logger) Name() string  { return l.name }
func (l *logger) With(args ...any) hclog.Logger {
	return &logger{l.Logger, l.to.With(args...), l.name}
}

func (l *logger) Named(name string) hclog.Logger {
	return &logger{l.Logger, l.to, l.name + "." + name}
}

func (l *logger) ResetNamed(name string) hclog.Logger {
	return &logger{l.Logger, l.to, name}
}
