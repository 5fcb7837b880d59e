package service

import (
	"path/filepath"
	"strings"

	"github.com/coveyproject/covey/node/api"
)

// Systemd is the Manager of Linux.
type Systemd struct{ System }

// Where units are.
const (
	packagedUnit = "/usr/lib/systemd/system/covey.service"
	systemUnit   = "/etc/systemd/system/covey.service"
)

// check says whether systemd runs this machine.
func (m Systemd) check() error {
	if !m.there("/run/systemd/system") {
		return api.Errorf(api.Failed, "systemd does not run this machine (there is no /run/systemd/system): have what starts programs here run `peer up`, in the foreground, or type `peer up --detach`")
	}
	return nil
}

// unit is the path of a service's unit.
func (m Systemd) unit(s Spec) string {
	if s.System {
		return systemUnit
	}
	return filepath.Join(m.Home, ".config/systemd/user/covey.service")
}

// EnvFile is where a service's environment may be.
func (m Systemd) EnvFile(system bool) string {
	if system {
		return SystemEnv
	}
	return filepath.Join(m.Home, ".config/covey/peer.env")
}

// ctl runs systemctl.
func (m Systemd) ctl(s Spec, words ...string) (string, error) {
	if !s.System {
		words = append([]string{"--user"}, words...)
	}
	out, err := m.Run("systemctl", words...)
	if err != nil && strings.Contains(err.Error(), "connect to bus") {
		err = api.Errorf(api.Failed, "%v. Your systemd answers in a login of your own only, not through su or sudo: log in as this user, or take --system", err)
	}
	return out, err
}

// Install implements Manager.
func (m Systemd) Install(s Spec) error {
	if err := m.check(); err != nil {
		return err
	}
	if err := m.root(s, "install"); err != nil {
		return err
	}
	s.Env = m.EnvFile(s.System)
	if s.Join != "" {
		if err := m.write(s.Env, "PEER_JOIN="+s.Join+"\n", 0o600); err != nil {
			return err
		}
	}
	if s.System {
		if _, err := m.Run("id", "-u", Name); err != nil {
			if _, err := m.Run("useradd", "--system", "--user-group", "--home-dir", SystemData, "--no-create-home", "--shell", "/usr/sbin/nologin", Name); err != nil {
				return err
			}
		}
	}
	if !s.System || s.Program != "/usr/bin/peer" || !m.there(packagedUnit) { // that of the package is as good, and is upgraded
		if err := m.write(m.unit(s), Unit(s), 0o644); err != nil {
			return err
		}
		m.Say("wrote " + m.unit(s))
	}
	if !s.System {
		if _, err := m.Run("loginctl", "enable-linger"); err != nil {
			m.Say("it runs while you are logged in only, as `loginctl enable-linger` did not work: " + err.Error())
		}
	}
	for _, words := range [][]string{{"daemon-reload"}, {"enable", Name}, {"restart", "--no-block", Name}} {
		if _, err := m.ctl(s, words...); err != nil {
			return err
		}
	}
	return nil
}

// Uninstall implements Manager.
func (m Systemd) Uninstall(s Spec) error {
	if err := m.check(); err != nil {
		return err
	}
	if err := m.root(s, "uninstall"); err != nil {
		return err
	}
	if !m.there(m.unit(s)) && !(s.System && m.there(packagedUnit)) {
		return notThere(s)
	}
	if _, err := m.ctl(s, "disable", "--now", Name); err != nil {
		return err
	}
	for _, p := range []string{m.unit(s), m.EnvFile(s.System)} {
		if err := m.remove(p); err != nil {
			return err
		}
	}
	_, err := m.ctl(s, "daemon-reload")
	return err
}

// Status implements Manager.
func (m Systemd) Status(s Spec) (string, error) {
	if err := m.check(); err != nil {
		return "", err
	}
	if !m.there(m.unit(s)) && !(s.System && m.there(packagedUnit)) {
		return "", notThere(s)
	}
	active, err := m.ctl(s, "is-active", Name) // exits with 3 when it is not
	if active == "" && err != nil {
		return "", err
	}
	enabled, _ := m.ctl(s, "is-enabled", Name)
	return active + ", " + enabled, nil
}
