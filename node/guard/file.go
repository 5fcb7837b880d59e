package guard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/trust/policy"
)

// lookEvery is how often the file is looked at.
const lookEvery = time.Second

// File is the policy's file, and what of it is in force. It is safe for concurrent use.
type File struct {
	path    string
	changed func()

	mu    sync.Mutex
	text  []byte // as it was read last; nil: there is none
	force policy.Policy
	wrong error    // why the newest is not in force
	holds []string // sorted
	lacks map[string]string
	user  string // as Policy.User
}

// OpenFile reads the file. As long as there is none, nothing may run. changed hears later on when
// what is in force has changed, or can no longer be read; it is called by whoever looks.
func OpenFile(path string, changed func()) *File {
	f := &File{path: path, changed: func() {}}
	f.Look()
	f.changed = changed
	return f
}

// Path is where the file is, or would be.
func (f *File) Path() string { return f.path }

// Exists tells whether there is a file, be it one that cannot be read.
func (f *File) Exists() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text != nil || f.wrong != nil
}

// Now is the policy in force.
func (f *File) Now() policy.Policy {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.force
	p.Holds, p.User = f.holds, f.user // each task asks: nothing is sorted anew for it
	return p
}

// Hold says what holds on this machine, as words of package taskstate, and of others why they do
// not.
func (f *File) Hold(words []string, lacks map[string]string) {
	f.mu.Lock()
	f.lacks = lacks
	f.holds = policy.Policy{}.Here(words).Holds
	f.mu.Unlock()
	f.changed()
}

// Lacks says of what does not hold on this machine why, as far as that is known.
func (f *File) Lacks() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lacks
}

// InForce says in a line what is in force: the file's hash in hexadecimal, and what is wrong.
func (f *File) InForce() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := "nothing runs"
	if f.text != nil {
		line = fmt.Sprintf("%x", sha256.Sum256(f.text))
	}
	if f.wrong != nil {
		line += " still: " + f.wrong.Error()
	}
	return line
}

// Warning says what is wrong with the file, and what is in force; "": nothing is.
func (f *File) Warning() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.wrong == nil:
		return ""
	case f.text == nil:
		return fmt.Sprintf("the policy of this machine cannot be read (%v): nothing runs here until you fix it with `peer trust edit`", f.wrong)
	}
	return fmt.Sprintf("the policy of this machine cannot be read (%v): what it said last is in force until the next start; fix it with `peer trust edit`", f.wrong)
}

// Wrong is why the file as it is now is not in force; nil: it is.
func (f *File) Wrong() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrong
}

// Look reads the file again.
func (f *File) Look() {
	text, err := readFile(f.path)
	f.mu.Lock()
	if err == nil && f.wrong == nil && bytes.Equal(text, f.text) && (text == nil) == (f.text == nil) {
		f.mu.Unlock()
		return
	}
	was := f.wrong
	var next policy.Policy
	switch {
	case err != nil:
	case text != nil:
		next, err = policy.Read(text)
		if bad, ok := errors.AsType[*policy.Error](err); ok {
			err = fmt.Errorf("%s:%w", f.path, bad)
		}
	case f.text != nil || was != nil:
		err = fmt.Errorf("%s is gone", f.path)
	}
	same := was != nil && err != nil && was.Error() == err.Error()
	if f.wrong = err; err == nil {
		f.text, f.force = text, next
	}
	f.mu.Unlock()
	if !same {
		f.changed()
	}
}

// readFile reads the file; nil: there is none.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, policy.MaxFile+1))
	if text == nil {
		text = []byte{}
	}
	return text, err
}

// Run looks at the file until ctx ends.
func (f *File) Run(ctx context.Context) error {
	for pause.For(ctx, lookEvery) == nil {
		f.Look()
	}
	return nil
}
