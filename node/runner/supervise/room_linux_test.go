package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// smallDisk is a file system of its own that holds this much.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 || syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size) != nil {
		t.Skip("needs to mount a file system")
	}
	t.Cleanup(func() {
		if err := exec.Command("umount", "-l", dir).Run(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no block of the disk free.
func fill(t *testing.T, dir string) (rest string) {
	t.Helper()
	rest = filepath.Join(dir, "rest")
	f, err := os.Create(rest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 64<<10); len(b) > 0; {
		if _, err := f.Write(b); err != nil {
			b = b[:len(b)/2]
		}
	}
	return rest
}

func onSmallDisk(t *testing.T) (dir string, e *Engine, h *heard) {
	dir = smallDisk(t, "8m")
	e, h = engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	return dir, e, h
}

// The line prints a lot and does not look whether it could, as many programs do.
const heedless = `until [ -e go ]; do sleep 0.01; done; head -c 300000 /dev/zero 2>/dev/null; exit 0`

func TestOutputThatAFullDiskCutShortIsToldWithTheEnd(t *testing.T) {
	dir, e, h := onSmallDisk(t)
	s := specIn(t, dir, "a.1.1", heedless)
	e.Start(s)
	h.until("a.1.1", func(ev Event) bool { return ev.Kind == Started })
	fill(t, dir)
	e.mu.Lock()
	e.room.at = e.room.at.AddDate(-1, 0, 0) // of before it was filled
	e.mu.Unlock()
	if err := os.WriteFile(filepath.Join(s.Home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end := h.until("a.1.1", Event.Final)
	if end.Exit != 0 || end.Lost() != syscall.ENOSPC {
		t.Errorf("%+v, lost: %v", end, end.Lost())
	}
	b := appendEvent(nil, end)
	if again, err := decodeEvent(b); err != nil || again.Lost() != syscall.ENOSPC {
		t.Errorf("it says %+v, %v to a peer that comes later", again, err)
	}
}

func TestOutputOnADiskWithRoomIsWhole(t *testing.T) {
	dir, e, h := onSmallDisk(t)
	s := specIn(t, dir, "a.1.1", strings.Replace(heedless, "300000", "100000", 1))
	e.Start(s)
	if err := os.WriteFile(filepath.Join(s.Home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := h.until("a.1.1", Event.Final); end.Exit != 0 || end.Lost() != nil || end.Sizes[0] != 100000 {
		t.Errorf("%+v", end)
	}
}

// Room is held while there is some: what writes little on a disk that fills up later loses nothing
// and is not taken for something that did.
func TestATaskThatWritesLittleKeepsItsOutputOnADiskThatIsFull(t *testing.T) {
	dir, e, h := onSmallDisk(t)
	s := specIn(t, dir, "a.1.1", `until [ -e go ]; do sleep 0.01; done; echo little; echo more >&2`)
	e.Start(s)
	h.until("a.1.1", func(ev Event) bool { return ev.Kind == Started })
	low := func() (Room, error) { return Room{Free: 1 << 20, Total: 1 << 30}, nil }
	e.mu.Lock()
	e.room.look, e.room.at = low, e.room.at.AddDate(-1, 0, 0)
	x := e.procs["a.1.1"]
	e.mu.Unlock()
	e.enforceCaps() // what its watch does
	fill(t, dir)
	x.mu.Lock()
	held := x.out.files[0].held
	x.mu.Unlock()
	if held == 0 {
		t.Fatal("nothing is held")
	}
	if err := os.WriteFile(filepath.Join(s.Home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end := h.until("a.1.1", Event.Final)
	if end.Exit != 0 || end.Lost() != nil {
		t.Errorf("%+v, lost: %v", end, end.Lost())
	}
	if b, err := os.ReadFile(filepath.Join(s.Home, "stdout")); string(b) != "little\n" || err != nil {
		t.Errorf("stdout is %q, %v", b, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(s.Home, "stdout"), &st); err != nil || st.Blocks*512 > 4096 {
		t.Errorf("what was held is not given back: %d bytes on disk, %v", st.Blocks*512, err)
	}
}

func TestADiskThatTurnsReadOnlyLosesOutput(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	e.mu.Lock()
	e.room.look = func() (Room, error) { return Room{Free: 1 << 40, Total: 1 << 41, ReadOnly: true}, nil }
	e.mu.Unlock()
	e.Start(specIn(t, dir, "a.1.1", "echo hi"))
	if end := h.until("a.1.1", Event.Final); end.Lost() != syscall.EROFS {
		t.Errorf("%+v, lost: %v", end, end.Lost())
	}
}

func TestADiskIsLowBelowATwentiethOrWhatOneTaskMayWrite(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		room Room
		low  bool
	}{
		{Room{Free: 130 << 20, Total: 100 * gib}, false},
		{Room{Free: 127 << 20, Total: 100 * gib}, true},
		{Room{Free: 60 << 20, Total: gib}, false},
		{Room{Free: 40 << 20, Total: gib}, true},
		{Room{Free: gib, Total: 2 * gib, ReadOnly: true}, true},
	} {
		if c.room.Low() != c.low {
			t.Errorf("%+v is low: %v", c.room, !c.low)
		}
	}
	if room, err := RoomOf(t.TempDir()); err != nil || room.Total <= 0 || room.Free > room.Total {
		t.Errorf("%+v, %v", room, err)
	}
}

// brokenDisk is an ext4 file system of its own, and what breaks it: statfs finds nothing wrong with
// it afterwards.
func brokenDisk(t *testing.T) (dir string, shutDown, error func()) {
	t.Helper()
	dir = t.TempDir()
	image := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(16<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 || exec.Command("mkfs.ext4", "-q", "-F", image).Run() != nil || exec.Command("mount", "-o", "loop,errors=remount-ro", image, dir).Run() != nil {
		t.Skip("needs to make and mount a disk")
	}
	t.Cleanup(func() {
		if err := exec.Command("umount", "-l", dir).Run(); err != nil {
			t.Error(err)
		}
	})
	shutDown = func() {
		root, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		const ext4Shutdown, withoutFlush = 0x8004587d, 2
		flags := uint32(withoutFlush)
		if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, root.Fd(), ext4Shutdown, uintptr(unsafe.Pointer(&flags))); e != 0 {
			t.Skip("this system cannot shut a disk down:", e)
		}
	}
	error = func() {
		device, err := exec.Command("findmnt", "-no", "SOURCE", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(strings.TrimSpace(string(device)))
		if err := os.WriteFile(filepath.Join("/sys/fs/ext4", name, "trigger_fs_error"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, shutDown, error
}

func TestOutputThatABrokenDiskRefusedIsToldWithTheEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		want syscall.Errno
	}{{"shut down", syscall.EIO}, {"after an error", syscall.EROFS}} {
		t.Run(c.name, func(t *testing.T) {
			dir, breakIt, error := brokenDisk(t)
			if c.want == syscall.EROFS {
				breakIt = error
			}
			e, h := engineIn(t, dir), newHeard()
			e.Attach(h.sink)
			goes := filepath.Join(t.TempDir(), "go")
			e.Start(specIn(t, dir, "a.1.1", "until [ -e "+goes+" ]; do sleep 0.01; done; echo result; exit 0"))
			h.until("a.1.1", func(ev Event) bool { return ev.Kind == Started })
			breakIt()
			if err := os.WriteFile(goes, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if end := h.until("a.1.1", Event.Final); end.Exit != 0 || end.Lost() != c.want {
				t.Errorf("%+v, lost: %v", end, end.Lost())
			}
		})
	}
}

func TestEveryAnswerOfADiskThatTakesNothingMeansThatOutputIsLost(t *testing.T) {
	for _, want := range []syscall.Errno{
		syscall.EIO, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.ESTALE, syscall.EFBIG, syscall.EUCLEAN, syscall.ENOTCONN, syscall.ENODEV, syscall.ENXIO,
	} {
		dir := t.TempDir()
		e, h := engineIn(t, dir), newHeard()
		e.Attach(h.sink)
		e.mu.Lock()
		e.room.probe, e.room.at = func() error { return &os.PathError{Op: "write", Err: want} }, time.Time{}
		e.mu.Unlock()
		e.Start(specIn(t, dir, "a.1.1", "exit 0"))
		if end := h.until("a.1.1", Event.Final); end.Lost() != want {
			t.Errorf("%v: %+v, lost: %v", want, end, end.Lost())
		}
	}
}

func TestOutputThatReachesTheFileSizeItsTaskMayWriteIsNotWhole(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	limited := func(task, line string) Event {
		s := specIn(t, dir, task, line)
		s.Box = &sandbox.Spec{Limits: []sandbox.Limit{{Of: sandbox.LimitFileSize, Max: 8192}}}
		e.Start(s)
		end := h.until(task, Event.Final)
		if end.Kind == Refused {
			t.Skip("needs to limit processes:", end.Err)
		}
		return end
	}
	if end := limited("a.1.1", "trap '' XFSZ; head -c 20000 /dev/zero 2>/dev/null; exit 0"); end.Exit != 0 || end.Lost() != syscall.EFBIG {
		t.Errorf("%+v, lost: %v", end, end.Lost())
	}
	if end := limited("a.2.1", "head -c 8000 /dev/zero"); end.Lost() != nil {
		t.Errorf("below its limit: %+v, lost: %v", end, end.Lost())
	}
	if end := limited("a.3.1", "exec head -c 20000 /dev/zero"); end.Signal != int(syscall.SIGXFSZ) || end.Lost() != nil {
		t.Errorf("one that is ended by the system has failed: %+v, lost: %v", end, end.Lost())
	}
}
