package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
