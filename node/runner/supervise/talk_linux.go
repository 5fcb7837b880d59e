package supervise

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// talkLimit is how many bytes a supervisor says to its log in its life, and how large a log may be
// for another to go on with it: of what goes wrong again and again, the beginning explains most.
const talkLimit = 1 << 20

// talk is a supervisor's log: bounded, because trouble on a machine may last for months.
type talk struct {
	now func() time.Time

	mu   sync.Mutex
	to   io.Writer
	left int
}

func newTalk(to io.Writer, now func() time.Time, limit int) *talk {
	return &talk{to: to, now: now, left: limit}
}

// say writes a line, or nothing once the limit is reached. Safe for concurrent use.
func (t *talk) say(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left <= 0 {
		return
	}
	line := fmt.Sprintln(t.now().Format(time.RFC3339), what)
	if t.left -= len(line); t.left <= 0 {
		line = fmt.Sprintln(t.now().Format(time.RFC3339), "much has been said here; nothing more is, until this supervisor is started again")
	}
	_, _ = io.WriteString(t.to, line)
}

// freshTalk opens the log of a supervisor that begins. A large one is put aside, in place of the
// one put aside before.
func freshTalk(path string) (*os.File, error) {
	if st, err := os.Stat(path); err == nil && st.Size() >= talkLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}
