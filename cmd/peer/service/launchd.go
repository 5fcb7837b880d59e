package service

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Launchd is the Manager of macOS.
type Launchd struct{ System }

// plist is the path of a service's property list.
func (m Launchd) plist(s Spec) string {
	if s.System {
		return "/Library/LaunchDaemons/" + Label + ".plist"
	}
	return filepath.Join(m.Home, "Library/LaunchAgents", Label+".plist")
}

// domain is whose services launchctl speaks of.
func (m Launchd) domain(s Spec) string {
	if s.System {
		return "system"
	}
	return fmt.Sprintf("gui/%d", m.UID)
}

// Install implements Manager.
func (m Launchd) Install(s Spec) error {
	if err := m.root(s, "install"); err != nil {
		return err
	}
	if err := m.write(m.plist(s), Plist(s), 0o600); err != nil {
		return err
	}
	m.Say("wrote " + m.plist(s))
	_, _ = m.Run("launchctl", "bootout", m.domain(s)+"/"+Label) // of an earlier install
	_, err := m.Run("launchctl", "bootstrap", m.domain(s), m.path(m.plist(s)))
	return err
}

// Uninstall implements Manager.
func (m Launchd) Uninstall(s Spec) error {
	if err := m.root(s, "uninstall"); err != nil {
		return err
	}
	if !m.there(m.plist(s)) {
		return notThere(s)
	}
	_, _ = m.Run("launchctl", "bootout", m.domain(s)+"/"+Label) // it may not run
	return m.remove(m.plist(s))
}

// Status implements Manager.
func (m Launchd) Status(s Spec) (string, error) {
	if !m.there(m.plist(s)) {
		return "", notThere(s)
	}
	out, err := m.Run("launchctl", "print", m.domain(s)+"/"+Label)
	if err != nil {
		return "not loaded", nil
	}
	for line := range strings.Lines(out) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "state = "); ok {
			return state, nil
		}
	}
	return "loaded", nil
}
