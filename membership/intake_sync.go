package membership

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/coveyproject/covey/internal/far"
)

// Caps of what one exchange of everything may bring.
const (
	maxStates     = 4096    // members: a cluster of ours is a fraction of it
	maxStateBytes = 4 << 20 // of all of them, as they are read
	maxSyncWords  = 1 << 10 // bytes of a ping, an answer or an error
)

var errNotOurs = errors.New("not what a peer of this version sends")

// syncConn is a stream as memberlist sees it: what comes was looked at first, what goes has this
// peer's record signed. It also tells when memberlist has closed it.
type syncConn struct {
	net.Conn
	t    *transport
	peer string
	once sync.Once
	stop func() bool
	done chan struct{}

	read bool
	in   bytes.Reader
}

// SetDeadline implements net.Conn. memberlist's own deadlines are too short for a peer that is far
// away: that one has some round trips.
func (s *syncConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		return s.Conn.SetDeadline(t)
	}
	now := time.Now()
	return s.Conn.SetDeadline(now.Add(far.For(s.t.net, s.peer, t.Sub(now))))
}

// Close closes the stream, once.
func (s *syncConn) Close() (err error) {
	s.once.Do(func() {
		s.stop()
		err = s.Conn.Close()
		close(s.done)
	})
	return err
}

// Read gives memberlist the one message that either side sends, once it is whole. memberlist reads
// from one goroutine.
func (s *syncConn) Read(b []byte) (int, error) {
	if s.t.intake == nil {
		return s.Conn.Read(b)
	}
	if !s.read {
		s.read = true
		msg, err := s.t.intake.sync(s.t.ctx, s.peer, s.Conn)
		if err != nil {
			if errors.Is(err, errNotOurs) {
				s.t.intake.m.refusals.note(s.peer, notOurs, err.Error())
			}
			return 0, err
		}
		s.in.Reset(msg)
	}
	return s.in.Read(b)
}

// Write sends memberlist's message, which it writes in one go.
func (s *syncConn) Write(b []byte) (int, error) {
	if s.t.intake == nil {
		return s.Conn.Write(b)
	}
	if _, err := s.Conn.Write(s.t.intake.m.seal.outgoingSync(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// within reads one value after another, none longer than it may be. The decoder takes what it needs
// and no more.
type within struct {
	r    *bufio.Reader
	left int
}

func (w *within) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := w.r.Read(b[:min(len(b), w.left)])
	w.left -= n
	return n, err
}

func (w *within) ReadByte() (byte, error) {
	if w.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	w.left--
	return w.r.ReadByte()
}

func (w *within) UnreadByte() error {
	w.left++
	return w.r.UnreadByte()
}

// states reads what an exchange of everything brings: the header, each member, and what goes with
// it.
type states struct {
	in  within
	dec *codec.Decoder
}

func readStates(r io.Reader) *states {
	s := &states{in: within{r: bufio.NewReader(io.LimitReader(r, maxStateBytes))}}
	s.dec = codec.NewDecoder(&s.in, msgpack)
	return s
}

func (s *states) value(most int, v any) error {
	s.in.left = most
	return s.dec.Decode(v)
}

// sync reads the one message of a stream, and is what of it memberlist may see.
func (in *intake) sync(ctx context.Context, from string, c io.Reader) ([]byte, error) {
	s := readStates(c)
	s.in.left = 1
	kind, err := s.in.ReadByte()
	if err != nil {
		return nil, err
	}
	var body any
	switch kind {
	case pushPullMsg:
		return in.states(ctx, from, s)
	case pingMsg:
		body = &streamPing{}
	case ackMsg:
		body = &streamAck{}
	case errMsg:
		body = &streamErr{}
	default:
		return nil, fmt.Errorf("%w: %s on a stream", errNotOurs, word(kind))
	}
	if err := in.pace(ctx, from, 1); err != nil {
		return nil, err
	}
	if err := s.value(maxSyncWords, body); err != nil {
		return nil, fmt.Errorf("%w: %v", errNotOurs, err)
	}
	return encodeMessage(kind, body), nil
}

// The small messages of streams, as memberlist writes them.
type (
	streamPing struct {
		SeqNo      uint32
		Node       string
		SourceAddr []byte `codec:",omitempty"`
		SourcePort uint16 `codec:",omitempty"`
		SourceNode string `codec:",omitempty"`
	}
	streamAck struct {
		SeqNo   uint32
		Payload []byte
	}
	streamErr struct{ Error string }
)

// states is a list of all members with those left out that memberlist may not see.
func (in *intake) states(ctx context.Context, from string, s *states) ([]byte, error) {
	var h stateHeader
	if err := s.value(maxSyncWords, &h); err != nil {
		return nil, err
	}
	if h.Nodes < 0 || h.Nodes > maxStates || h.UserStateLen < 0 || h.UserStateLen > maxMeta {
		return nil, fmt.Errorf("%w: %d members and %d bytes more", errNotOurs, h.Nodes, h.UserStateLen)
	}
	if err := in.pace(ctx, from, 1+h.Nodes); err != nil {
		return nil, err
	}
	var keep []stateBody
	seen, strangers := map[string]bool{}, 0
	for range h.Nodes {
		var m stateBody
		if err := s.value(2<<10, &m); err != nil {
			return nil, err
		}
		if seen[m.Name] {
			return nil, fmt.Errorf("%w: a member twice", errNotOurs)
		}
		seen[m.Name] = true
		if m.Name != in.self && !in.m.cfg.Admitted(m.Name) {
			if strangers++; strangers > maxStrangers {
				continue
			}
		}
		if in.state(ctx, from, &m) {
			keep = append(keep, m)
		}
	}
	user := make([]byte, h.UserStateLen)
	s.in.left = len(user)
	if _, err := io.ReadFull(&s.in, user); err != nil {
		return nil, err
	}
	if len(user) > 0 && !in.hint(from, user) {
		user, h.UserStateLen = nil, 0
	}
	h.Nodes = len(keep)
	return encodeStates(h, keep, user), nil
}

func encodeStates(h stateHeader, all []stateBody, user []byte) []byte {
	var b bytes.Buffer
	enc := codec.NewEncoder(&b, msgpack)
	b.WriteByte(pushPullMsg)
	if enc.Encode(h) != nil { // plain values always encode
		return nil
	}
	for i := range all {
		if enc.Encode(&all[i]) != nil {
			return nil
		}
	}
	b.Write(user)
	return b.Bytes()
}

// outgoingSync is memberlist's message on a stream with this peer's own record signed.
func (s *sealer) outgoingSync(b []byte) []byte {
	if len(b) == 0 || b[0] != pushPullMsg {
		return b
	}
	r := readStates(bytes.NewReader(b[1:]))
	var h stateHeader
	if r.value(len(b), &h) != nil {
		return b
	}
	all := make([]stateBody, 0, max(h.Nodes, 0))
	for range h.Nodes {
		var m stateBody
		if r.value(len(b), &m) != nil {
			return b
		}
		if m.Name == s.self {
			if m.Meta = s.seal(m.Incarnation, m.Meta); m.Meta == nil {
				h.Nodes--
				continue
			}
		}
		all = append(all, m)
	}
	return encodeStates(h, all, b[max(len(b)-h.UserStateLen, 0):])
}
