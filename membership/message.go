package membership

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// memberlist's message types (its protocol, versions 1 to 5) that peers of this program send each
// other.
const (
	pingMsg     = 0
	indirectMsg = 1
	ackMsg      = 2
	suspectMsg  = 3
	aliveMsg    = 4
	deadMsg     = 5
	pushPullMsg = 6
	compoundMsg = 7
	userMsg     = 8
	nackMsg     = 11
	hasCrcMsg   = 12
	errMsg      = 13
)

// The bodies of those messages, as memberlist writes them. The names are its own: they are keys of
// maps on the wire.
type (
	aliveBody struct {
		Incarnation uint32
		Node        string
		Addr        []byte
		Port        uint16
		Meta        []byte
		Vsn         []uint8
	}
	accuseBody struct { // of suspect and dead
		Incarnation uint32
		Node        string
		From        string
	}
	pingBody struct { // of ping and indirect ping: what both have
		Node       string
		SourceNode string
	}
	indirectBody struct { // an indirect ping, whole: it is written again (wantedPing)
		SeqNo      uint32
		Target     []byte
		Port       uint16
		Node       string
		Nack       bool
		SourceAddr []byte `codec:",omitempty"`
		SourcePort uint16 `codec:",omitempty"`
		SourceNode string `codec:",omitempty"`
	}
	stateHeader struct {
		Nodes        int
		UserStateLen int
		Join         bool
	}
	stateBody struct {
		Name        string
		Addr        []byte
		Port        uint16
		Meta        []byte
		Incarnation uint32
		State       memberlist.NodeStateType
		Vsn         []uint8
	}
)

// versions is what every peer of this program says of its protocols: another list could end all
// exchanges, memberlist insists that all agree.
var versions = [...]uint8{memberlist.ProtocolVersionMin, memberlist.ProtocolVersionMax, memberlist.ProtocolVersion2Compatible, 0, 0, 0}

// msgpack is how memberlist writes. It is shared, because it learns each type only once, and never
// changed; it is safe for concurrent use.
var msgpack = &codec.MsgpackHandle{}

func decodeBody(b []byte, v any) error {
	return codec.NewDecoderBytes(b, msgpack).Decode(v)
}

// encodeMessage is what memberlist would write. Plain values always encode.
func encodeMessage(kind byte, body any) []byte {
	var b []byte
	if codec.NewEncoderBytes(&b, msgpack).Encode(body) != nil {
		return nil
	}
	return append([]byte{kind}, b...)
}

// bare takes off a packet's checksum: the stream has its own.
func bare(packet []byte) []byte {
	if len(packet) > 5 && packet[0] == hasCrcMsg {
		return packet[5:]
	}
	return packet
}

var errTorn = errors.New("it ends too early")

// split calls each with every message of a packet, until it is false. What is cut off is an error;
// what came before was given to each.
func split(packet []byte, each func(msg []byte) bool) error {
	packet = bare(packet)
	if len(packet) == 0 {
		return errTorn
	}
	if packet[0] != compoundMsg {
		each(packet)
		return nil
	}
	if len(packet) < 2 {
		return errTorn
	}
	n := int(packet[1])
	sizes, rest := packet[2:], packet[2:]
	if len(rest) < 2*n {
		return errTorn
	}
	rest = rest[2*n:]
	for i := range n {
		size := int(binary.BigEndian.Uint16(sizes[2*i:]))
		if size > len(rest) {
			return errTorn
		}
		if size > 0 && !each(rest[:size]) {
			return nil
		}
		rest = rest[size:]
	}
	return nil
}

// pack is the packet of these messages, at most 255: none for none.
func pack(msgs [][]byte) []byte {
	switch len(msgs) {
	case 0:
		return nil
	case 1:
		return msgs[0]
	}
	b := []byte{compoundMsg, byte(len(msgs))}
	for _, m := range msgs {
		b = binary.BigEndian.AppendUint16(b, uint16(len(m)))
	}
	for _, m := range msgs {
		b = append(b, m...)
	}
	return b
}

func word(kind byte) string {
	switch kind {
	case 9:
		return "a compressed message"
	case 10:
		return "an encrypted message"
	case compoundMsg:
		return "a packet within a packet"
	}
	return fmt.Sprintf("a message of type %d", kind)
}
