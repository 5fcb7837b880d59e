package session

import (
	"net/netip"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// Facts is what constraints can ask about the peer of an offer, with no labels but its own.
func (o *Offer) Facts(peer taskstate.PeerID) constraint.Facts {
	f := constraint.Facts{
		ID: peer, Name: o.Name, OS: o.OS, Arch: o.Arch, MilliCPU: o.Resources.MilliCPU, Memory: o.Resources.Memory,
		Offers: o.Resources.Others.Map(), Labels: o.Labels,
	}
	for _, text := range o.Addrs {
		if a, err := netip.ParseAddr(text); err == nil {
			f.Addrs = append(f.Addrs, a.Unmap())
		}
	}
	return f
}
