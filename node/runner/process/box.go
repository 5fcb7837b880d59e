package process

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/taskstate"
)

var limitWords = map[string]sandbox.LimitOf{
	taskstate.LimitFiles: sandbox.LimitFiles, taskstate.LimitProcesses: sandbox.LimitProcesses, taskstate.LimitCore: sandbox.LimitCore, taskstate.LimitFileSize: sandbox.LimitFileSize,
}

// Sandbox is what tasks are kept from here.
type Sandbox struct {
	Hide  []string // folders that tasks find empty, but for their own: the data folder, and others
	Show  []string // what they see of these all the same: the socket of the API
	Users string   // the file that says which users were given to whom
	Self  bool     // tasks run as this peer's user, also where they could have users of their own
}

// confiner makes what each task is kept from. A nil one keeps nothing from anybody.
type confiner struct {
	cfg   Sandbox
	dir   string                   // the tasks folder
	real  func(path string) string // a path of the tasks folder without links
	holds sandbox.Holds
	rules bool // where folders cannot be hidden by mounts, rules hide them and nothing else
	// others are folders where other users' sockets may be. Rules on files have no say in who
	// connects to a socket, so isolated tasks find them empty.
	others []string
	users  *users // nil: all tasks run as this peer's user
}

// tried is what a trial showed: it takes a process, and shows the same to all that are in one.
var tried = [2]func() sandbox.Holds{
	sync.OnceValue(func() sandbox.Holds { return sandbox.Try(false) }),
	sync.OnceValue(func() sandbox.Holds { return sandbox.Try(true) }),
}

func newConfiner(cfg Config) (*confiner, error) {
	if cfg.Sandbox == nil {
		return nil, nil
	}
	b := &confiner{cfg: *cfg.Sandbox, dir: cfg.Dir}
	born := 1
	if cfg.InProcess {
		born = 0
	}
	b.holds = tried[born]()
	for _, of := range [][]string{b.cfg.Hide, b.cfg.Show} {
		for i, p := range of {
			of[i] = realPath(p)
		}
	}
	if !b.holds.Mounts && b.holds.Files {
		if hide := byRules(b.cfg.Hide, sandbox.Sealed); hide != nil {
			b.rules, b.cfg.Hide = true, hide
		}
	}
	for _, dir := range []string{"/run", "/tmp", "/home", "/root", "/var", "/srv", "/mnt", "/media", "/dev/shm"} {
		if dir = realPath(dir); isFolder(dir) {
			b.others = append(b.others, dir)
		}
	}
	dir := realPath(cfg.Dir)
	b.real = func(home string) string {
		if rel, err := filepath.Rel(cfg.Dir, home); err == nil {
			return filepath.Join(dir, rel)
		}
		return home
	}
	var err error
	if b.holds.Users && b.holds.Mounts && !b.cfg.Self { // without, a task's folder is below one that only this peer's user passes
		b.users, err = openUsers(b.cfg.Users)
	}
	return b, err
}

// byRules are those of the folders that rules can hide; nil if they cannot hide the data folder,
// which is the first. What is in /dev/shm they never can, where everybody makes names.
func byRules(hide []string, sealed func([]string) bool) (out []string) {
	for i, h := range hide {
		switch {
		case sealed([]string{h}):
			out = append(out, h)
		case i == 0:
			return nil
		}
	}
	return out
}

// realPath is a path without links, as far as it exists.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(realPath(dir), filepath.Base(path))
	}
	return path
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Holds says what can be kept from tasks here, in words of taskstate.Confinement.
func (r *Executor) Holds() (words []string) {
	b := r.boxes
	if b == nil {
		return nil
	}
	if b.holds.Privileges {
		words = append(words, taskstate.HoldsNNP)
	}
	if hides, _ := r.Hides(); hides {
		words = append(words, taskstate.HoldsHide)
	}
	if b.users != nil {
		words = append(words, taskstate.RequireUser)
	}
	if b.holds.Files {
		words = append(words, taskstate.RequireLandlock)
	}
	if closes, _ := r.Closes(); closes {
		words = append(words, taskstate.IsolateFS)
	}
	if b.holds.Limits {
		words = append(words, taskstate.HoldsLimits)
	}
	if b.holds.Groups {
		words = append(words, taskstate.RequireCgroup)
	}
	if b.holds.Net {
		words = append(words, taskstate.RequireNet)
	}
	if strong, _ := r.Strong(); strong {
		words = append(words, taskstate.IsolateStrong)
	}
	return words
}

// Strong tells whether tasks can be kept from seeing anything else of the machine, and if not why.
func (r *Executor) Strong() (ok bool, why string) {
	switch b := r.boxes; {
	case b == nil:
		return false, "nothing is kept from tasks here"
	case !b.holds.Apart:
		return false, cmp.Or(b.holds.WhySeen, "it cannot be had here") + "; it takes user namespaces, or root with CAP_SYS_ADMIN"
	case !b.holds.Files:
		return false, "the kernel has no landlock"
	case !b.holds.Net:
		return false, "no network can be made that is a task's own"
	}
	return true, ""
}

// Closes reports whether tasks can be kept from files and sockets of others, and if not why.
func (r *Executor) Closes() (ok bool, why string) {
	switch b := r.boxes; {
	case b == nil:
		return false, "nothing is kept from tasks here"
	case !b.holds.Files:
		return false, "the kernel has no landlock"
	case !b.holds.Mounts:
		return false, cmp.Or(b.holds.Why, "folders cannot be hidden here") + "; sockets of others would be in reach"
	}
	return true, ""
}

// Hides tells whether tasks find the data folder empty, and if not why.
func (r *Executor) Hides() (ok bool, why string) {
	if r.boxes == nil {
		return false, "nothing is kept from tasks here"
	}
	return r.boxes.holds.Mounts || r.boxes.rules, cmp.Or(r.boxes.holds.Why, "it cannot be hidden here")
}

// userOf is the user a task runs as, nil: this peer's own.
func (b *confiner) userOf(l taskstate.Launch) (*sandbox.User, error) {
	if b == nil {
		return nil, nil
	}
	as := taskstate.AsDynamic
	if l.Confinement != nil {
		as = l.Confinement.As
	} else if b.users == nil {
		as = taskstate.AsSelf
	}
	name, named := strings.CutPrefix(as, taskstate.AsUser)
	switch {
	case as == "" || as == taskstate.AsSelf:
		return nil, nil
	case b.users == nil:
		return nil, reject(taskstate.ReasonPolicy, "this peer's policy has it run as %s, which takes a peer that root starts, and folders that can be hidden", as)
	case named:
		return b.named(name)
	case as == taskstate.AsDynamic:
		by := l.Job.Submitter
		if l.Job.Order != nil {
			by = l.Job.Order.By
		}
		return b.users.of(string(by))
	}
	return nil, reject(taskstate.ReasonPolicy, "this peer's policy has it run as %q, which is no user", as)
}

// named is a user of this machine.
func (b *confiner) named(name string) (*sandbox.User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, reject(taskstate.ReasonPolicy, "this peer's policy has it run as %s: %v", name, err)
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if uerr != nil || gerr != nil || uid <= 0 || gid <= 0 {
		return nil, reject(taskstate.ReasonPolicy, "this peer's policy has it run as %s, which is not a user like others", name)
	}
	return &sandbox.User{UID: uid, GID: gid}, nil
}

// of is what a task is kept from whose folder is home.
func (b *confiner) of(l taskstate.Launch, home string, user *sandbox.User) *sandbox.Spec {
	if b == nil {
		return nil
	}
	s := &sandbox.Spec{User: user, NNP: true}
	hide := b.holds.Mounts || b.rules
	if c := l.Confinement; c != nil {
		s.NNP = !slices.Contains(c.Without, taskstate.WithoutNNP)
		s.Apart = c.Isolate == taskstate.IsolateStrong
		hide = hide && !(user == nil && !s.Apart && slices.Contains(c.Without, taskstate.WithoutHide))
		s.NoNet = c.Net == taskstate.NetNone
		s.Closed = c.Isolate != "" && c.Isolate != taskstate.IsolateNone
		for _, l := range c.Limits {
			s.Limits = append(s.Limits, sandbox.Limit{Of: limitWords[l.Of], Max: uint64(l.Max)})
		}
		// What people run on their own machines pays no tenth of its rate for this; all else does.
		s.Only = slices.Contains(c.Require, taskstate.RequireCgroup)
		s.Group = b.holds.Groups && (s.Only || !c.Ours)
		s.Demands = len(c.Require)+len(c.Limits) > 0 || user != nil || s.NoNet || s.Closed
		if s.Closed {
			s.Write, s.Read = []string{b.real(home)}, c.Read
		}
	}
	if s.Rules = !b.holds.Mounts; hide {
		for _, h := range b.cfg.Hide {
			if user != nil {
				h = closed(h)
			}
			s.Hide = append(s.Hide, h)
		}
	}
	if s.Closed && b.holds.Mounts {
		s.Hide = append(s.Hide, hideOthers(b.others, s.Read)...)
	}
	if len(s.Hide) == 0 {
		s.Rules = false
		return s
	}
	own := b.real(home)
	// Folders of users of their own keep all others out. What people run on their own machines as
	// themselves reaches its like anyway, and mounts for each would cost a third of the rate.
	if s.Alike = !s.Apart && (user != nil || l.Confinement != nil && l.Confinement.Ours); s.Alike {
		own = b.real(b.dir)
	}
	s.Show = append([]string{own}, b.cfg.Show...)
	if s.Closed {
		s.Show = append(s.Show, "/run/current-system")
		if !s.NoNet { // /etc/resolv.conf leads there; and without a network its socket would be a way out
			s.Show = append(s.Show, "/run/systemd/resolve")
		}
		for _, p := range s.Read {
			s.Show = append(s.Show, p, realPath(p))
		}
	}
	s.Show = slices.DeleteFunc(s.Show, func(p string) bool { return !s.Hidden(p) || slices.Contains(s.Hide, p) })
	slices.Sort(s.Show)
	s.Show = slices.Compact(s.Show)
	return s
}

// hideOthers are folders of others without those that are to be read as a whole.
func hideOthers(others, read []string) (hide []string) {
	for _, dir := range others {
		if !slices.ContainsFunc(read, func(p string) bool { p = realPath(p); return p == dir || strings.HasPrefix(dir, p+"/") }) {
			hide = append(hide, dir)
		}
	}
	return hide
}

// lacks says what a task is to be kept from and cannot be here; nil if there is nothing. The peer's
// policy asked before: this is for a machine that has changed since.
func (r *Executor) lacks(c *taskstate.Confinement) error {
	if c == nil {
		return nil
	}
	holds, want := r.Holds(), slices.Clone(c.Require)
	if c.Net == taskstate.NetNone {
		want = append(want, taskstate.RequireNet)
	}
	if c.Isolate != "" && c.Isolate != taskstate.IsolateNone {
		want = append(want, c.Isolate)
	}
	if len(c.Limits) > 0 {
		want = append(want, taskstate.HoldsLimits)
	}
	if c.As == taskstate.AsSelf && os.Geteuid() == 0 && limitsProcesses(c) {
		return reject(taskstate.ReasonPolicy, "this peer's policy limits its processes and has it run as root, whose are not limited")
	}
	for _, w := range want {
		if !slices.Contains(holds, w) {
			return reject(taskstate.ReasonPolicy, "it must not run without %q, which does not hold on this peer", w)
		}
	}
	return nil
}
