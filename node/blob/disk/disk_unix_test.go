//go:build unix

package disk

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coveyproject/covey/node/blob/tree"
)

func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Without waiting for a writer: a scan that opens a FIFO does not come back.
func TestWhatIsNoFileIsLeftOutByName(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/file", "one")
	if err := syscall.Mkfifo(dir+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	t.Chdir(dir) // the path of a socket is short
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"}); err != nil {
		t.Fatal(err)
	}
	want := "fifo is a FIFO, socket is a socket"
	if runtime.GOOS == "linux" && unix.Mknod(dir+"/device", unix.S_IFCHR|0o666, 1<<8|5) == nil { // as root
		want = "device is a device, " + want
	}
	r := root(t, dir)
	defer r.Close()
	var got []string
	skipped, err := Scan(t.Context(), r, nil, Hash, func(e tree.Entry) error { got = append(got, e.Path); return nil })
	var says []string
	for _, s := range skipped {
		says = append(says, s.Path+" "+s.Why)
	}
	if err != nil || strings.Join(got, " ") != "file" || strings.Join(says, ", ") != want {
		t.Errorf("%q, without %q, %v", got, says, err)
	}
}

func TestAFIFOInTheWayIsNotReadAndReplacedOnlyByForce(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/1", 0o666); err != nil {
		t.Fatal(err)
	}
	r := root(t, dir)
	defer r.Close()
	o := WriteOptions{Open: store("one").open}
	if _, err := Write(t.Context(), r, list(file("1", "one")), o); err == nil {
		t.Error("it was replaced")
	}
	o.Force = true
	if _, err := Write(t.Context(), r, list(file("1", "one")), o); err != nil || seen(t, dir)["1"] != "file 6f6e65 false" {
		t.Error(err)
	}
}

// Two processes that write the same tree: the second must not take the first one's part for one
// that was left behind.
func TestAPartThatSomebodyWritesIsNotTakenOver(t *testing.T) {
	dir := t.TempDir()
	r := root(t, dir)
	defer r.Close()
	f, err := createPart(r, partOf("1"), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), r, list(file("1", "one")), WriteOptions{Open: store("one").open}); err == nil || !strings.Contains(err.Error(), "another process writes it now") {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/" + partOf("1")); err != nil {
		t.Error(err)
	}
	f.Close()
	if _, err := Write(t.Context(), r, list(file("1", "one")), WriteOptions{Open: store("one").open}); err != nil {
		t.Error(err)
	}
}

// Case 18: pipes and devices among what is collected.
func TestWhatIsLeftOutIsNamedUpToABound(t *testing.T) {
	dir := t.TempDir()
	for i := range 100 {
		if err := syscall.Mkfifo(fmt.Sprintf("%s/f%02d", dir, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, out, err := collectAll(t, dir, "f*")
	if err != nil || len(got) != 0 || out.Found[0] || len(out.Skipped)+out.More != 100 || len(out.Skipped) > 20 {
		t.Errorf("%v, %d skipped and %d more, %v", got, len(out.Skipped), out.More, err)
	}
	if got, out, err := collectAll(t, dir, "g*"); err != nil || len(got)+len(out.Skipped) != 0 {
		t.Errorf("%v, %+v, %v", got, out, err)
	}
}
