package service

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2/maybe"

	"github.com/coveyproject/covey/node/api"
)

// Manager does with a service what its system needs done. Errors say what to type next.
type Manager interface {
	// Install writes the service's files, has it start with the system or its user, and starts it
	// now, or anew.
	Install(Spec) error
	// Uninstall stops it and removes its files. The data folder stays.
	Uninstall(Spec) error
	// Status is what the system says of it, in a word or two; an api.NotFound if it knows none.
	Status(Spec) (string, error)
}

// System is the machine around a manager, which tests replace.
type System struct {
	Root string                                            // "" or a folder that stands for /
	Home string                                            // of the user, absolute
	UID  int                                               // of the user
	Run  func(name string, args ...string) (string, error) // a program; what it printed
	Say  func(text string)                                 // for people
}

// Exec runs a program for a System: what it printed, also as part of the error.
func Exec(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, api.Errorf(api.Failed, "`%s %s`: %v: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}

func (m System) path(p string) string { return filepath.Join(m.Root, p) }

func (m System) there(p string) bool {
	_, err := os.Stat(m.path(p))
	return err == nil
}

// write replaces a file below the root, and makes its folder.
func (m System) write(p, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(m.path(p)), 0o755); err != nil {
		return err
	}
	return maybe.WriteFile(m.path(p), []byte(text), mode)
}

func (m System) remove(p string) error {
	if err := os.Remove(m.path(p)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// root refuses what only root can do.
func (m System) root(s Spec, do string) error {
	if s.System && m.UID != 0 {
		return api.Errorf(api.Refused, "a service of the machine takes root: `sudo peer service %s --system`; without --system it is yours alone", do)
	}
	return nil
}

func notThere(s Spec) error {
	how := ""
	if s.System {
		how = " --system"
	}
	return api.Errorf(api.NotFound, "there is no such service; `peer service install%s` makes it", how)
}
