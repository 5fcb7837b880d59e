package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/runner/sandbox"
)

// A message of a supervisor is every field of its kind, in order: any change shows here. With what
// is new goes another protocolVersion.
func TestMessagesAreAsTheirVersionHasThem(t *testing.T) {
	spec := Spec{
		Task: "j.1.1", Home: "/home", Path: "/bin/sh", Dir: "/work", Argv: []string{"sh", "-c"}, Env: []string{"A=B"},
		Timeout: time.Second, Cap: 7, Stdin: true, Newest: true,
		Box: &sandbox.Spec{User: &sandbox.User{UID: 5, GID: 4}, Hide: []string{"/data"}, Show: []string{"/data/sock"}, NNP: true, Demands: true, Rules: true, NoNet: true, Closed: true, Alike: true, Group: true, Only: true, Limits: []sandbox.Limit{{Of: sandbox.LimitFiles, Max: 64}, {Of: sandbox.LimitCore}}, Read: []string{"/r"}, Write: []string{"/w"}},
	}
	var b strings.Builder
	for k := orderHello; k <= orderStartIn; k++ {
		o := order{kind: k, spec: spec, task: "j.1.1", reason: "why", tasks: []string{"j.1.1", "j.2.1"}, version: 9, logCap: 8, grace: 7, guard: 6}
		fmt.Fprintf(&b, "order %d: %q\n", k, appendOrder(nil, o))
	}
	apart := *spec.Box
	apart.Rules, apart.Alike, apart.Apart = false, false, true
	spec.Box = &apart
	fmt.Fprintf(&b, "order %d of version 3: %q\n", orderStartIn, appendOrder(nil, order{kind: orderStartIn, spec: spec}))
	if _, err := decodeOrder([]byte{byte(orderStartIn) + 1}); err == nil {
		t.Error("there is another order: add it here")
	}
	for k := Started; k <= synced; k++ {
		e := Event{
			Kind: k, Task: "j.1.1", At: 1, Took: 2, Held: 1023, Exit: 3, Signal: 4, Reason: "why", Timeout: true, Unseen: true, Alone: true, Unbegun: true,
			Rebooted: true, Sizes: [2]int64{5, 6}, Cut: [2]bool{true, true}, Errno: 7, Err: "err", version: 8,
		}
		fmt.Fprintf(&b, "event %d: %q\n", k, appendEvent(nil, e))
		fmt.Fprintf(&b, "event %d for version 1: %q\n", k, appendEvent(nil, e.in(1)))
	}
	golden.Freeze(t, fmt.Sprint("supervisor protocol ", protocolVersion), b.String())
	if err := golden.Check("testdata/wires.txt", b.String()); err != nil {
		t.Error(err)
	}
}

// What a supervisor leaves on the disk is read by the next one, also of another version.
func TestFilesAreWrittenAsTheyAlwaysWere(t *testing.T) {
	dir := t.TempDir()
	r, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.put(record{task: "j.1.1", pid: 42, before: 1, after: 2, deadline: 3, boot: "boot", cap: outputCap{limit: 9, newest: true}, held: 5, group: 6}); err != nil {
		t.Fatal(err)
	}
	e, _, err := openEnds(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.add(Event{Kind: Ended, Task: "j.1.1", At: 10, Took: 7, Held: 3, Exit: 3, Sizes: [2]int64{1, 2}, Alone: true, Reason: "stop"}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range []*os.File{r.f, e.f} {
		whole, err := os.ReadFile(f.Name())
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s: %q\n", filepath.Base(f.Name()), whole)
	}
	marks := times{path: filepath.Join(dir, TimesFile("stdout")), count: -1}
	marks.note(5, 1000)
	marks.note(7, 2000)
	whole, err := os.ReadFile(marks.path)
	if want := (Times{{5, 1000}, {7, 2000}}); err != nil || !slices.Equal(ReadTimes(bytes.NewReader(whole)), want) {
		t.Errorf("%v: %q is not read as it was written", err, whole)
	}
	fmt.Fprintf(&b, "stdout.times: %q\n", whole)
	if err := golden.Check("testdata/files.txt", b.String()); err != nil {
		t.Error(err)
	}
}
