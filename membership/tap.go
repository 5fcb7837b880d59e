package membership

// carriesNews tells whether a packet is, or takes along, more than a probe or its answer.
func carriesNews(packet []byte) bool {
	packet = bare(packet)
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

// rank orders rumours about one peer: a suspicion is newer than the life it suspects, the next
// incarnation is newer than both.
func (r rumour) rank() uint64 {
	if r.suspect {
		return 2*uint64(r.incarnation) + 2
	}
	return 2*uint64(r.incarnation) + 1
}

// rumours finds what an outgoing packet says about suspicions. memberlist tells its delegates who
// joined and who died but not whom it suspects; it does pass every suspicion, and every refutation,
// on to others at the moment it believes it.
func rumours(packet []byte, tell func(rumour)) {
	_ = split(packet, func(msg []byte) bool { // what memberlist wrote is whole
		if msg[0] == suspectMsg || msg[0] == aliveMsg {
			var body struct {
				Incarnation uint32
				Node        string
			}
			if decodeBody(msg[1:], &body) == nil {
				tell(rumour{suspect: msg[0] == suspectMsg, node: body.Node, incarnation: body.Incarnation})
			}
		}
		return true
	})
}
