package raftlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// Raft speaks a lot of peers that are away, an everyday thing: what a person should see is what
// nobody foresaw, once and as a warning.
func TestOfRaftsWordsOnlyWhatIsNotEverydayIsAWarning(t *testing.T) {
	for _, c := range []struct {
		what, want string // want: the level, "" = nothing
		say        func(hclog.Logger)
	}{
		{"a trace", "", func(l hclog.Logger) { l.Trace("x") }},
		{"debugging", "DEBUG", func(l hclog.Logger) { l.Debug("x", "peer", "b") }},
		{"information", "DEBUG", func(l hclog.Logger) { l.Info("x", "peer", "b") }},
		{"a warning", "DEBUG", func(l hclog.Logger) { l.Warn("x", "peer", "b") }},
		{"a peer that is away", "DEBUG", func(l hclog.Logger) { l.Error("failed to heartbeat to", "peer", "b") }},
		{"a stream that broke", "DEBUG", func(l hclog.Logger) { l.Error("failed to pipeline appendEntries", "peer", "b") }},
		{"a disk that is said elsewhere", "DEBUG", func(l hclog.Logger) { l.Error("failed to append to logs", "peer", "b") }},
		{"what nobody foresaw", "WARN", func(l hclog.Logger) { l.Error("failed to install snapshot", "peer", "b") }},
		{"the same by level", "WARN", func(l hclog.Logger) { l.Log(hclog.Error, "x", "peer", "b") }},
		{"information by level", "DEBUG", func(l hclog.Logger) { l.Log(hclog.Info, "x", "peer", "b") }},
	} {
		var out bytes.Buffer
		c.say(New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		got := out.String()
		if c.want == "" && got != "" || c.want != "" && (!strings.Contains(got, "level="+c.want+" ") || !strings.Contains(got, "raft: ") || !strings.Contains(got, "peer=b")) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestRaftIsSparedTheWordsNobodyHears(t *testing.T) {
	for level, hears := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		l := New(slog.New(slog.NewTextHandler(&bytes.Buffer{}, &slog.HandlerOptions{Level: level})))
		if l.IsDebug() != hears || l.IsInfo() != hears || l.IsWarn() != hears || !l.IsError() || l.IsTrace() {
			t.Errorf("at %v: debug %t, info %t, warn %t, error %t", level, l.IsDebug(), l.IsInfo(), l.IsWarn(), l.IsError())
		}
	}
}

func TestAPartOfRaftSpeaksUnderItsName(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if n := l.Named("net").Name(); n != "raft.net" {
		t.Error(n)
	}
	l.Named("net").With("at", "a").Error("x")
	l.ResetNamed("snapshot").Error("y")
	l.StandardLogger(nil).Print("z") // what a library prints by itself is not for people
	for _, want := range []string{`msg="raft.net: x" at=a`, `msg="snapshot: y"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "z\"") {
		t.Errorf("it said %s", out.String())
	}
}
