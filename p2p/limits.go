package p2p

import (
	"math"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/x/rate"
	"github.com/pbnjay/memory"
)

// newLimits builds libp2p's resource manager for a full mesh of peers. Its defaults (128 inbound
// connections, 8 for each address) would refuse a lab behind one NAT. It counts what members may
// have, and memory; its scope of what is under way is left open, because everybody shares it: a
// peer that fills it shuts the door for all. The connLimits in front of it bounds that, for each by
// itself.
func newLimits(peers int) (network.ResourceManager, error) {
	n := rcmgr.LimitVal(peers)
	limits := rcmgr.PartialLimitConfig{
		System: rcmgr.ResourceLimits{
			Conns: 8*n + 256, ConnsInbound: 4*n + 128, ConnsOutbound: 4*n + 128,
			Streams: 256*n + 8192, StreamsInbound: 128*n + 4096, StreamsOutbound: 128*n + 4096,
			FD: 8*n + 256, Memory: rcmgr.LimitVal64(muxMemory()),
		},
		PeerDefault: rcmgr.ResourceLimits{
			Conns: 16, ConnsInbound: 8, ConnsOutbound: 8,
			Streams: 4096, StreamsInbound: 2048, StreamsOutbound: 2048, FD: 16, Memory: 256 << 20,
		},
	}.Build(rcmgr.InfiniteLimits)
	each := rcmgr.ConnLimitPerSubnet{ConnCount: 2*peers + 32}
	v4, v6 := each, each
	v4.PrefixLength, v6.PrefixLength = 32, 56
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits),
		rcmgr.WithMetricsDisabled(),
		rcmgr.WithLimitPerSubnet([]rcmgr.ConnLimitPerSubnet{v4}, []rcmgr.ConnLimitPerSubnet{v6}),
		rcmgr.WithConnRateLimiters(&rate.Limiter{
			NetworkPrefixLimits: []rate.PrefixLimit{
				{Prefix: netip.MustParsePrefix("127.0.0.0/8")}, {Prefix: netip.MustParsePrefix("::1/128")},
			},
			SubnetRateLimiter: rate.SubnetLimiter{
				IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: rate.Limit{RPS: 20, Burst: 2*peers + 64}}},
				IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 56, Limit: rate.Limit{RPS: 20, Burst: 2*peers + 64}}},
				GracePeriod:      time.Minute,
			},
		}),
	)
}

// muxMemory is what all streams together may buffer: an eighth of the machine, between 128 MiB and
// 1 GiB.
func muxMemory() int64 {
	total := min(memory.TotalMemory(), math.MaxInt64)
	return min(max(int64(total)/8, 128<<20), 1<<30)
}
