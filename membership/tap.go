package membership

import (
	"encoding/binary"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// memberlist's packet types that matter here (its protocol, versions 1 to 5).
const (
	pingMsg     = 0
	indirectMsg = 1
	ackMsg      = 2
	suspectMsg  = 3
	aliveMsg    = 4
	compoundMsg = 7
	nackMsg     = 11
	hasCrcMsg   = 12
)

// carriesNews tells whether a packet is, or takes along, more than a probe or its answer.
func carriesNews(packet []byte) bool {
	if len(packet) > 5 && packet[0] == hasCrcMsg {
		packet = packet[5:]
	}
	if len(packet) == 0 {
		return false
	}
	switch packet[0] {
	case pingMsg, indirectMsg, ackMsg, nackMsg:
		return false
	}
	return true
}

// rumour is a suspicion or refutation that memberlist passes on.
type rumour struct {
	suspect     bool
	node        string
	incarnation uint32
}

// rank orders rumours about one peer: a suspicion is newer than the life it doubts, the next incarnation is newer than both.
func (r rumour) rank() uint64 {
	if r.suspect {
		return 2*uint64(r.incarnation) + 2
	}
	return 2*uint64(r.incarnation) + 1
}

// rumours finds what an outgoing packet says about suspicions. memberlist tells its delegates who joined and who died but not whom it
// suspects; it does pass every suspicion, and every refutation, on to others at the moment it believes it.
func rumours(packet []byte, tell func(rumour)) {
	if len(packet) > 5 && packet[0] == hasCrcMsg {
		packet = packet[5:]
	}
	if len(packet) < 2 {
		return
	}
	if packet[0] != compoundMsg {
		rumourOf(packet, tell)
		return
	}
	n := int(packet[1])
	sizes, rest := packet[2:], packet[2:]
	if len(rest) < 2*n {
		return
	}
	rest = rest[2*n:]
	for i := range n {
		size := int(binary.BigEndian.Uint16(sizes[2*i:]))
		if size > len(rest) {
			return
		}
		if size > 0 {
			rumourOf(rest[:size], tell)
		}
		rest = rest[size:]
	}
}

func rumourOf(b []byte, tell func(rumour)) {
	if b[0] != suspectMsg && b[0] != aliveMsg {
		return
	}
	var body struct {
		Incarnation uint32
		Node        string
	}
	if codec.NewDecoderBytes(b[1:], &codec.MsgpackHandle{}).Decode(&body) == nil {
		tell(rumour{suspect: b[0] == suspectMsg, node: body.Node, incarnation: body.Incarnation})
	}
}
