package clinic

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"strings"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Protocol asks a peer how it is, or what time it has.
const Protocol = "/covey/doctor/1"

// What a question asks for.
const (
	askClock   = 1
	askExamine = 2
	askUDP     = 3 // to be dialled
	askLarge   = 4 // for an answer that is large, with findings that mean nothing
)

const (
	served      = 8
	maxQuestion = 256
	maxAnswer   = 64 << 10
	maxFindings = 100
	maxPorts    = 4
	maxText     = 1000 // bytes of one text
	largeAnswer = 8 << 10
)

type question struct {
	What  int      `cbor:"1,keyasint"`
	Ports []uint16 `cbor:"2,keyasint,omitempty"` // UDP, at most four
}

type answer struct {
	Now      int64     `cbor:"1,keyasint"` // microseconds since 1970
	Version  string    `cbor:"2,keyasint,omitempty"`
	Findings []finding `cbor:"3,keyasint,omitempty"`
	Known    bool      `cbor:"4,keyasint,omitempty"` // dialling could be tried
	Reached  bool      `cbor:"5,keyasint,omitempty"`
}

type finding struct {
	Check  string `cbor:"1,keyasint"`
	Result string `cbor:"2,keyasint"`
	Text   string `cbor:"3,keyasint"`
	Do     string `cbor:"4,keyasint,omitempty"`
}

// findings are what another peer says of itself: texts for people, kept to their bounds. A result
// that this version does not know is one to look at.
func (a answer) findings() (out []api.Finding) {
	for _, f := range a.Findings[:min(len(a.Findings), maxFindings)] {
		switch f.Result {
		case api.FindingOK, api.FindingWarn, api.FindingFail, api.FindingUntried:
		default:
			f.Result = api.FindingWarn
		}
		out = append(out, api.Finding{Check: text(f.Check), Result: f.Result, Text: text(f.Text), Do: text(f.Do)})
	}
	return out
}

// text is what a text is at most.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "?") }

// Serve answers one stream.
func (c *Clinic) Serve(peer string, s net.Conn) {
	defer s.Close()
	if !c.serving.Enter(peer) {
		return
	}
	defer c.serving.Leave(peer)
	_ = s.SetDeadline(time.Now().Add(askPatience))
	var q question
	if wire.NewReader(s, maxQuestion).Read(&q) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	var a answer
	switch q.What {
	case askClock:
	case askExamine:
		mine := c.self(ctx, fresh)
		a.Version = mine.Version
		for _, f := range mine.Findings {
			a.Findings = append(a.Findings, finding{f.Check, f.Result, text(f.Text), text(f.Do)})
		}
	case askUDP:
		a.Known, a.Reached = c.cfg.Net.DialUDP(ctx, peer, q.Ports)
	case askLarge:
		a.Findings = large()
	default:
		return
	}
	a.Now = time.Now().UnixMicro()
	_ = wire.NewWriter(s, maxAnswer).Send(a)
}

// large makes findings that take about largeAnswer bytes and cannot be compressed.
func large() (out []finding) {
	for size := 0; size < largeAnswer; size += maxText {
		random := make([]byte, maxText/2)
		_, _ = rand.Read(random) // it never fails
		out = append(out, finding{Text: hex.EncodeToString(random)})
	}
	return out
}

// ask asks a peer something.
func (c *Clinic) ask(ctx context.Context, peer taskstate.PeerID, q question, limit time.Duration) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, far.For(c.cfg.Net, peer, limit))
	defer cancel()
	s, err := c.cfg.Dial(ctx, peer, Protocol)
	if err != nil {
		return a, err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err = wire.NewWriter(s, maxQuestion).Send(q); err == nil {
		err = wire.NewReader(s, maxAnswer).Read(&a)
	}
	return a, err
}
