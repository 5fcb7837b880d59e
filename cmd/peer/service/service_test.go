package service_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/cmd/peer/service"
	"github.com/coveyproject/covey/node/api"
)

// machine is a system in a folder: programs are only written down. fails are those that fail.
func machine(t *testing.T, uid int, fails ...string) (m service.System, ran func() string) {
	t.Helper()
	var all []string
	return service.System{
		Root: t.TempDir(), Home: "/home/you", UID: uid, Say: func(string) {},
		Run: func(name string, args ...string) (string, error) {
			line := strings.Join(append([]string{name}, args...), " ")
			all = append(all, line)
			if slices.ContainsFunc(fails, func(f string) bool { return strings.HasPrefix(line, f) }) {
				return "", errors.New(line + ": no")
			}
			return "", nil
		},
	}, func() string { return strings.Join(all, "\n") }
}

// booted is such a machine that systemd runs.
func booted(t *testing.T, uid int, fails ...string) (m service.Systemd, ran func() string) {
	t.Helper()
	around, ran := machine(t, uid, fails...)
	if err := os.MkdirAll(filepath.Join(around.Root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	return service.Systemd{System: around}, ran
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWithoutSystemdItSaysWhatToDoInstead(t *testing.T) {
	around, ran := machine(t, 0)
	m := service.Systemd{System: around}
	_, err := m.Status(service.Spec{})
	for _, err := range []error{err, m.Install(service.Spec{}), m.Uninstall(service.Spec{})} {
		if err == nil || !strings.Contains(err.Error(), "`peer up`, in the foreground") {
			t.Error(err)
		}
	}
	if ran() != "" {
		t.Errorf("it ran %s", ran())
	}
}

func TestAUsersServiceIsAUnitOfTheirsThatGoesOnWhenTheyLogOut(t *testing.T) {
	m, ran := booted(t, 1000)
	s := service.Spec{Program: "/opt/a b/peer", Data: "/home/you/100%", Join: "covey1secret"}
	if err := m.Install(s); err != nil {
		t.Fatal(err)
	}
	unit := read(t, m.Root, "/home/you/.config/systemd/user/covey.service")
	for _, line := range []string{
		`ExecStart="/opt/a b/peer" up`, "Environment=PEER_DATA=/home/you/100%%", "EnvironmentFile=-/home/you/.config/covey/peer.env", "KillMode=process", "WantedBy=default.target",
	} {
		if !strings.Contains(unit, line+"\n") {
			t.Errorf("no %s in\n%s", line, unit)
		}
	}
	if strings.Contains(unit, "secret") || strings.Contains(unit, "User=") || strings.Contains(unit, "OOMScoreAdjust") { // a user may not lower it
		t.Error(unit)
	}
	env := filepath.Join(m.Root, "/home/you/.config/covey/peer.env")
	if info, err := os.Stat(env); err != nil || info.Mode().Perm() != 0o600 || read(t, env) != "PEER_JOIN=covey1secret\n" {
		t.Errorf("%v %v", info, err)
	}
	want := "loginctl enable-linger\nsystemctl --user daemon-reload\nsystemctl --user enable covey\nsystemctl --user restart --no-block covey"
	if ran() != want {
		t.Errorf("it ran\n%s", ran())
	}
	if err := m.Uninstall(s); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(env); err == nil {
		t.Error("the ticket stays")
	}
	if _, err := m.Status(s); err == nil || api.AsError(err).Code != api.NotFound {
		t.Error(err)
	}
}

func TestTheMachinesServiceTakesRootAndGetsAUserOfItsOwn(t *testing.T) {
	s := service.Spec{Program: "/usr/bin/peer", Data: service.SystemData, System: true}
	m, _ := booted(t, 1000)
	if err := m.Install(s); err == nil || api.AsError(err).Code != api.Refused {
		t.Error(err)
	}
	m, ran := booted(t, 0, "id -u covey")
	if err := m.Install(s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(ran(), "useradd --system") || !strings.HasSuffix(ran(), "\nsystemctl restart --no-block covey") {
		t.Error(ran())
	}
	if unit := read(t, m.Root, "/etc/systemd/system/covey.service"); unit != service.Unit(service.Spec{Program: "/usr/bin/peer", Data: service.SystemData, Env: service.SystemEnv, System: true}) {
		t.Error(unit)
	}
}

func TestAPackagesUnitIsNotHiddenByACopy(t *testing.T) {
	m, _ := booted(t, 0)
	packaged := filepath.Join(m.Root, "/usr/lib/systemd/system/covey.service")
	if err := errors.Join(os.MkdirAll(filepath.Dir(packaged), 0o755), os.WriteFile(packaged, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := m.Install(service.Spec{Program: "/usr/bin/peer", Data: service.SystemData, System: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(m.Root, "/etc/systemd/system/covey.service")); err == nil {
		t.Error("there is another unit in front of it")
	}
}

func TestAProgramOfTheSystemThatFailsIsWhyThereIsNoService(t *testing.T) {
	m, _ := booted(t, 1000, "loginctl", "systemctl --user enable")
	if err := m.Install(service.Spec{Program: "/p", Data: "/d"}); err == nil || !strings.Contains(err.Error(), "enable covey: no") {
		t.Error(err)
	}
}

func TestLaunchdIsGivenAListOnlyItsOwnerReads(t *testing.T) {
	around, ran := machine(t, 501)
	m := service.Launchd{System: around}
	s := service.Spec{Program: "/opt/a&b/peer", Data: "/d", Join: "covey1<secret>"}
	if err := m.Install(s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.Root, "/home/you/Library/LaunchAgents/covey.peer.plist")
	text := read(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(text, "/opt/a&amp;b/peer") {
		t.Errorf("%v %v %s", info, err, text)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for err := error(nil); err == nil; {
		if _, err = d.Token(); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	if !strings.Contains(ran(), "launchctl bootstrap gui/501 ") {
		t.Error(ran())
	}
	if err := m.Uninstall(s); err != nil {
		t.Error(err)
	}
	if err := m.Uninstall(s); err == nil || api.AsError(err).Code != api.NotFound {
		t.Error(err)
	}
}

// What systemd itself says of the units, the program and the manual being there or not.
func TestSystemdKnowsAllThatItsUnitsSay(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	for _, s := range []service.Spec{{System: true, Data: service.SystemData, Env: service.SystemEnv}, {Data: "/home/you/a b", Env: "/home/you/peer.env"}} {
		s.Program = "/bin/true"
		path := filepath.Join(t.TempDir(), "covey.service")
		if err := os.WriteFile(path, []byte(service.Unit(s)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(verify, "verify", "--man=no", path).CombinedOutput() // which fails where there is nothing else of a system
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "covey.service") {
				t.Errorf("system %v: %s", s.System, line)
			}
		}
	}
}

func TestSystemdIsToldThatAPeerIsReady(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no systemd there")
	}
	if err := service.Notify("READY=1"); os.Getenv("NOTIFY_SOCKET") == "" && err != nil {
		t.Errorf("nobody asked: %v", err)
	}
	dir, err := os.MkdirTemp("", "n") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	if err := service.Notify("READY=1"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := l.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("%q, %v", b[:n], err)
	}
}
