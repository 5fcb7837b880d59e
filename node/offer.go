package node

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/pbnjay/memory"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// offering is what this peer gives to tasks. It owns which addresses were offered last.
type offering struct {
	cfg   Config
	disk  int64 // as measured at the start: tasks count against it, and what they write must not once more
	name  string
	addrs func() []string // multiaddrs; nil before there is a network
	owner *guard.Owner    // nil before it is known

	mu      sync.Mutex
	at      []string // the IPs offered last
	noFiles string   // why no task is taken that leaves files
}

// now is what this peer gives to tasks, and what constraints may ask about it.
func (f *offering) now() session.Offer {
	r := taskstate.Resources{MilliCPU: f.cfg.MilliCPU, Memory: f.cfg.Memory, Disk: f.cfg.Disk, Others: f.cfg.Others}
	if r.MilliCPU <= 0 {
		r.MilliCPU = int64(runtime.NumCPU()) * 1000
	}
	if r.Memory <= 0 {
		r.Memory = int64(memory.TotalMemory())
	}
	switch {
	case r.Disk == 0:
		r.Disk = f.disk
	case r.Disk < 0:
		r.Disk = 0
	}
	f.mu.Lock()
	noFiles := f.noFiles
	f.mu.Unlock()
	o := session.Offer{NoFiles: noFiles, Resources: r, Name: f.name, Labels: f.cfg.Labels, OS: runtime.GOOS, Arch: runtime.GOARCH}
	if f.addrs != nil {
		o.Addrs = hostIPs(f.addrs())
	}
	if f.owner != nil {
		o.Policy = new(f.owner.Now().Digest())
	}
	return o
}

// facts is what constraints can ask about this peer, with the addresses that were offered last: the
// coordinator knows those.
func (f *offering) facts(self taskstate.PeerID) constraint.Facts {
	o := f.now()
	f.mu.Lock()
	if f.at != nil {
		o.Addrs = f.at
	}
	f.mu.Unlock()
	return o.Facts(self)
}

// full notes whether what tasks leave has no room here, and describes this peer again.
func (f *offering) full(err error) session.Offer {
	text := ""
	if err != nil {
		text = taskstate.ClipText(err.Error(), session.MaxTrouble)
	}
	f.mu.Lock()
	f.noFiles = text
	f.mu.Unlock()
	return f.now()
}

// diskShare is what part of a disk is not offered to tasks.
const diskShare = 10

// measure finds out how much of the disk with the data folder tasks may have. Where nobody can say,
// as on Windows, it is nothing.
func (f *offering) measure(dir string) {
	look := f.cfg.Machine.Room
	if look == nil {
		look = func() (supervise.Room, error) { return supervise.RoomOf(dir) }
	}
	if r, err := look(); err == nil && !r.ReadOnly {
		f.disk = min(max(0, r.Free-r.Total/diskShare), session.MaxResources)
	}
}

// moved describes this peer again when its addresses have changed, as the view tells: membership
// looks after them.
func (f *offering) moved(addrs []string) (o session.Offer, changed bool) {
	addrs = hostIPs(addrs)
	f.mu.Lock()
	same := slices.Equal(addrs, f.at)
	f.at = addrs
	f.mu.Unlock()
	if same {
		return o, false
	}
	o = f.now()
	o.Addrs = addrs
	return o, true
}

// maxOfferedIPs is more than a machine has; a worker that offers more is refused.
const maxOfferedIPs = 32

// hostIPs are the IP addresses of the machine itself among multiaddrs, ascending: not those of
// relays. Loopback counts only where there is nothing else.
func hostIPs(multiaddrs []string) []string {
	var reached, loopback []netip.Addr
	for _, m := range multiaddrs {
		if strings.Contains(m, "/p2p-circuit") {
			continue
		}
		text, _ := p2p.IPAndPort(m)
		ip, ok := netip.AddrFromSlice(text)
		switch ip = ip.Unmap(); {
		case !ok, ip.IsUnspecified(), ip.IsLinkLocalUnicast():
		case ip.IsLoopback():
			loopback = append(loopback, ip)
		default:
			reached = append(reached, ip)
		}
	}
	if len(reached) == 0 {
		reached = loopback
	}
	slices.SortFunc(reached, netip.Addr.Compare)
	reached = slices.Compact(reached)
	var out []string
	for _, ip := range reached[:min(len(reached), maxOfferedIPs)] {
		out = append(out, ip.String())
	}
	return out
}
