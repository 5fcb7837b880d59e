package p2p

// startPunching lets peers behind NATs try for a direct connection once they talk through a relay.
func (h *Host) startPunching() {}
