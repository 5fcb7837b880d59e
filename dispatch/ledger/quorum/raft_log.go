package quorum

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLog hands raft's own log lines on to slog. Raft is talkative about peers that are away – a line per failed heartbeat – and that
// is an everyday thing here: those lines are for debugging. What it cannot write is said by watchDisk, once.
type raftLog struct {
	hclog.Logger // a null logger: what is not overridden below says nothing
	to           *slog.Logger
	name         string
}

func newRaftLog(to *slog.Logger) hclog.Logger {
	return &raftLog{Logger: hclog.NewNullLogger(), to: to, name: "raft"}
}

func (l *raftLog) Log(level hclog.Level, msg string, args ...any) {
	if level >= hclog.Error {
		l.Error(msg, args...)
		return
	}
	l.to.Debug(l.name+": "+msg, args...)
}

func (l *raftLog) Trace(string, ...any)          {}
func (l *raftLog) Debug(msg string, args ...any) { l.to.Debug(l.name+": "+msg, args...) }
func (l *raftLog) Info(msg string, args ...any)  { l.to.Debug(l.name+": "+msg, args...) }
func (l *raftLog) Warn(msg string, args ...any)  { l.to.Debug(l.name+": "+msg, args...) }

func (l *raftLog) Error(msg string, args ...any) {
	level := slog.LevelWarn
	for _, everyday := range []string{"failed to heartbeat", "failed to appendEntries", "failed to pipeline", "failed to make request", "failed to decode incoming", "failed to accept", "failed to send snapshot", "failed to start pipeline", "failed to commit logs", "failed to persist vote", "failed to append to logs"} {
		if strings.HasPrefix(msg, everyday) {
			level = slog.LevelDebug
		}
	}
	l.to.Log(context.Background(), level, l.name+": "+msg, args...)
}

func (l *raftLog) IsTrace() bool { return false }
func (l *raftLog) IsDebug() bool { return l.to.Enabled(context.Background(), slog.LevelDebug) }
func (l *raftLog) IsInfo() bool  { return l.IsDebug() }
func (l *raftLog) IsWarn() bool  { return l.IsDebug() }
func (l *raftLog) IsError() bool { return true }
func (l *raftLog) Name() string  { return l.name }
func (l *raftLog) With(args ...any) hclog.Logger {
	return &raftLog{l.Logger, l.to.With(args...), l.name}
}

func (l *raftLog) Named(name string) hclog.Logger {
	return &raftLog{l.Logger, l.to, l.name + "." + name}
}

func (l *raftLog) ResetNamed(name string) hclog.Logger {
	return &raftLog{l.Logger, l.to, name}
}

func (l *raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(nil), "", 0)
}

func (l *raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
