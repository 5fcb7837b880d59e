package sandbox

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Spec is what one process is kept from.
type Spec struct {
	User    *User    // whom it runs as, with no other groups; nil: as who starts it
	Hide    []string // folders in whose place it finds empty ones, absolute
	Show    []string // what it finds there all the same, if it exists: absolute, below one of Hide
	Rules   bool     // they are hidden by rules on files, and not by mounts: where one may not mount
	NoNet   bool     // it has no network, not even to this machine
	Closed  bool     // it reads the system's folders and Read, and writes below Write, and no other files
	Read    []string // of a Closed one: absolute
	Write   []string // of a Closed one: absolute
	Alike   bool     // many processes are kept from the same: mounts and network made for one are the next one's, too
	Apart   bool     // it sees no processes but those it started, and shares no memory and no mounts with others
	NNP     bool     // neither it nor what it starts gains privileges by executing a program
	Group   bool     // it starts in a control group, if one can be had
	Only    bool     // and nowhere else
	Limits  []Limit
	Demands bool // it does not start where this cannot be done, not even under an older supervisor
}

// Limit bounds something for each process, for good: one that has less already keeps that.
type Limit struct {
	Of  LimitOf
	Max uint64
}

// LimitOf is what a Limit bounds.
type LimitOf uint8

// What a Limit can bound.
const (
	LimitFiles     LimitOf = iota + 1 // descriptors it has open
	LimitProcesses                    // processes and threads its user has; root may have more
	LimitCore                         // bytes of what is left of it when it crashes
	LimitFileSize                     // bytes of a file it writes
)

const maxLimits = 16

// User is a user of this machine, by number: there need not be a name.
type User struct{ UID, GID int }

// Holds is what can be done here.
type Holds struct {
	Mounts     bool   // folders can be hidden
	Users      bool   // processes can be another user's
	Privileges bool   // they can be kept from gaining privileges
	Net        bool   // they can be without a network
	Apart      bool   // they can be kept from seeing others
	Limits     bool   // they can be limited
	Groups     bool   // they can be in control groups
	Files      bool   // which files they open can be restricted (landlock)
	Why        string // why folders cannot be hidden, for people
	WhySeen    string // why processes cannot be kept from seeing others, for people
}

// Confined is what a process is kept from that was started so: what was done, never what was asked
// for. It is on wires and disks as it is here.
type Confined uint16

// What Confined can say.
const (
	ConfinedKnown      Confined = 1 << iota // all of it is said; without it, nothing is known
	ConfinedPrivileges                      // Spec.NNP
	ConfinedHidden                          // Spec.Hide
	ConfinedUser                            // Spec.User
	ConfinedRules                           // the kernel looks at what files it opens: for Closed, or in place of mounts
	ConfinedFiles                           // Spec.Closed
	ConfinedNet                             // Spec.NoNet
	ConfinedGroup                           // it was started in a control group that ends all of it
	ConfinedLimits                          // Spec.Limits
	ConfinedApart                           // Spec.Apart
)

// Confined is what a process is kept from that Run has started; of nil, nothing.
func (s *Spec) Held() Confined {
	h := ConfinedKnown
	if s == nil {
		return h
	}
	for _, x := range [...]struct {
		bit   Confined
		holds bool
	}{
		{ConfinedPrivileges, s.NNP || s.restricted()},
		{ConfinedHidden, len(s.Hide) > 0},
		{ConfinedUser, s.User != nil},
		{ConfinedRules, s.restricted()},
		{ConfinedFiles, s.Closed},
		{ConfinedNet, s.NoNet},
		{ConfinedLimits, len(s.Limits) > 0},
		{ConfinedApart, s.Apart},
	} {
		if x.holds {
			h |= x.bit
		}
	}
	return h
}

// Limit is a limit of the process, and whether it has one.
func (s *Spec) Limit(of LimitOf) (most uint64, ok bool) {
	if s == nil {
		return 0, false
	}
	for _, l := range s.Limits {
		if l.Of == of {
			return l.Max, true
		}
	}
	return 0, false
}

// FileSize is how large a file it writes may become; 0: no limit is set.
func (s *Spec) FileSize() int64 {
	most, _ := s.Limit(LimitFileSize)
	return int64(min(most, math.MaxInt64))
}

// Grouped tells whether the process is to start in a control group, and whether it must.
func (s *Spec) Grouped() (wants, must bool) {
	return s != nil && s.Group, s != nil && s.Group && s.Only
}

// restricted tells whether the thread is held to rules on files, which takes that it gains no
// privileges.
func (s *Spec) restricted() bool { return s.Closed || s.Rules && len(s.Hide) > 0 }

// Check tells what of a spec makes no sense.
func (s Spec) Check() error {
	for _, p := range slices.Concat(s.Hide, s.Show, s.Read, s.Write) {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return fmt.Errorf("sandbox: %q is no absolute path below /", p)
		}
	}
	if len(s.Limits) > maxLimits || slices.ContainsFunc(s.Limits, func(l Limit) bool { return l.Of < LimitFiles || l.Of > LimitFileSize }) {
		return errors.New("sandbox: no such limits are known")
	}
	if s.Apart && (s.Rules || s.Alike) {
		return errors.New("sandbox: what sees no others has mounts of its own")
	}
	for _, p := range s.Show {
		if !s.Hidden(p) {
			return fmt.Errorf("sandbox: %s is not hidden", p)
		}
	}
	if s.User != nil && (min(s.User.UID, s.User.GID) <= 0 || max(s.User.UID, s.User.GID) >= 1<<32-1) {
		return errors.New("sandbox: no user has this number")
	}
	return nil
}

// Hidden tells whether p lies in a folder that is hidden.
func (s Spec) Hidden(p string) bool {
	return slices.ContainsFunc(s.Hide, func(h string) bool { return strings.HasPrefix(p, h+"/") })
}

// Exhausted reports whether an error means that the system refused this process another process,
// thread or open file for now.
func Exhausted(err error) bool {
	for _, e := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
