package supervise

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// A supervisor lives as long as its tasks, also over an upgrade of the program. So each side speaks
// all versions from oldestVersion to protocolVersion: the peer's hello names its newest, the
// supervisor's welcome the one that is spoken, which is the newest both know. A hello and a welcome
// look the same in every version. Version 2 has orderStartWith and orderStartIn, and in events Cut,
// Took and Held, these two behind everything else and only if there is something to say, so that
// files of ends are read as they were. Version 3 has more flags of a box, behind all else of it and
// only if one of them is set.
const (
	protocolVersion = 3
	oldestVersion   = 1
)

// maxFrame bounds a message: the kernel takes arguments and environment of about 2 MiB.
const maxFrame = 8 << 20

var errFrame = errors.New("supervisor: a message that makes no sense")

// A message is LENGTH BODY, numbers are varints, texts are LENGTH BYTES. It is written by hand so
// that the supervisor needs nothing but the standard library. Every field of a kind is there;
// nothing may follow.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, all []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = appendText(b, s)
	}
	return b
}

func appendOrder(b []byte, o order) []byte {
	b = append(b, byte(o.kind))
	switch o.kind {
	case orderHello:
		for _, n := range []int64{int64(o.version), o.logCap, int64(o.grace), int64(o.guard)} {
			b = binary.AppendVarint(b, n)
		}
	case orderStart, orderStartWith, orderStartIn:
		s := o.spec
		b = appendText(appendText(appendText(appendText(b, s.Task), s.Home), s.Path), s.Dir)
		b = appendTexts(appendTexts(b, s.Argv), s.Env)
		b = binary.AppendVarint(b, int64(s.Timeout))
		if o.kind >= orderStartWith {
			b = appendText(append(binary.AppendVarint(b, s.Cap), flagsOf(s.Newest, s.Stdin)), s.Secrets)
		}
		if o.kind == orderStartIn {
			b = appendBox(b, *s.Box)
		}
	case orderStop:
		b = appendText(appendText(b, o.task), o.reason)
	case orderAck:
		b = appendTexts(b, o.tasks)
	}
	return b
}

func decodeOrder(body []byte) (order, error) {
	d := decoder{b: body}
	o := order{kind: orderKind(d.byte())}
	switch o.kind {
	case orderHello:
		o.version, o.logCap, o.grace, o.guard = int(d.number()), d.number(), time.Duration(d.number()), int(d.number())
	case orderStart, orderStartWith, orderStartIn:
		s := &o.spec
		s.Task, s.Home, s.Path, s.Dir = d.text(), d.text(), d.text(), d.text()
		s.Argv, s.Env, s.Timeout = d.texts(), d.texts(), time.Duration(d.number())
		if o.kind >= orderStartWith {
			s.Cap = d.number()
			d.flags(&s.Newest, &s.Stdin)
			s.Secrets = d.text()
		}
		if o.kind == orderStartIn {
			s.Box = d.box()
		}
		d.bad = d.bad || s.Task == "" || len(s.Argv) == 0
	case orderStop:
		o.task, o.reason = d.text(), d.text()
		d.bad = d.bad || o.reason == ""
	case orderAck:
		o.tasks = d.texts()
	case orderEnd:
	default:
		d.bad = true
	}
	return o, d.err()
}

func appendBox(b []byte, s sandbox.Spec) []byte {
	user := sandbox.User{}
	if s.User != nil {
		user = *s.User
	}
	b = binary.AppendVarint(binary.AppendVarint(b, int64(user.UID)), int64(user.GID))
	for _, paths := range [][]string{s.Hide, s.Show, s.Read, s.Write} {
		b = appendTexts(b, paths)
	}
	b = append(b, flagsOf(s.NNP, s.Demands, s.Rules, s.NoNet, s.Closed, s.Alike, s.Group, s.Only))
	b = binary.AppendUvarint(b, uint64(len(s.Limits)))
	for _, l := range s.Limits {
		b = binary.AppendVarint(append(b, byte(l.Of)), int64(l.Max))
	}
	if more := flagsOf(s.Apart); more != 0 {
		b = append(b, more)
	}
	return b
}

// box takes what appendBox made.
func (d *decoder) box() *sandbox.Spec {
	s := &sandbox.Spec{}
	if user := (sandbox.User{UID: int(d.number()), GID: int(d.number())}); user != (sandbox.User{}) {
		s.User = &user
	}
	s.Hide, s.Show, s.Read, s.Write = d.texts(), d.texts(), d.texts(), d.texts()
	d.flags(&s.NNP, &s.Demands, &s.Rules, &s.NoNet, &s.Closed, &s.Alike, &s.Group, &s.Only)
	for n := d.count(); n > 0 && !d.bad; n-- {
		s.Limits = append(s.Limits, sandbox.Limit{Of: sandbox.LimitOf(d.byte()), Max: uint64(d.number())})
	}
	if !d.bad && len(d.b) > 0 {
		d.flags(&s.Apart)
		d.bad = d.bad || !s.Apart
	}
	d.bad = d.bad || s.Check() != nil
	return s
}

func appendEvent(b []byte, e Event) []byte {
	b = appendText(append(b, byte(e.Kind)), e.Task)
	for _, n := range []int64{e.At, int64(e.Exit), int64(e.Signal), e.Sizes[0], e.Sizes[1], int64(e.Errno), int64(e.version)} {
		b = binary.AppendVarint(b, n)
	}
	flags := flagsOf(e.Timeout, e.Unseen, e.Alone, e.Unbegun, e.Rebooted, e.Cut[0], e.Cut[1])
	b = appendText(appendText(append(b, flags), e.Reason), e.Err)
	if e.Took != 0 || e.Held != 0 {
		b = binary.AppendVarint(b, e.Took)
	}
	if e.Held != 0 {
		b = binary.AppendVarint(b, int64(e.Held))
	}
	return b
}

func decodeEvent(body []byte) (Event, error) {
	d := decoder{b: body}
	e := Event{Kind: Kind(d.byte()), Task: d.text()}
	e.At, e.Exit, e.Signal = d.number(), int(d.number()), int(d.number())
	e.Sizes = [2]int64{d.number(), d.number()}
	e.Errno, e.version = int(d.number()), int(d.number())
	d.flags(&e.Timeout, &e.Unseen, &e.Alone, &e.Unbegun, &e.Rebooted, &e.Cut[0], &e.Cut[1])
	e.Reason, e.Err = d.text(), d.text()
	if !d.bad && len(d.b) > 0 {
		e.Took = d.number()
		d.bad = d.bad || e.Took < 0 || e.Took == 0 && len(d.b) == 0
	}
	if !d.bad && len(d.b) > 0 {
		held := d.number()
		e.Held = sandbox.Confined(held)
		d.bad = d.bad || held <= 0 || held > math.MaxUint16
	}
	d.bad = d.bad || e.Kind < Started || e.Kind > synced
	return e, d.err()
}

// flagsOf is up to eight flags in a byte, the first in the lowest bit.
func flagsOf(all ...bool) (b byte) {
	for i, f := range all {
		if f {
			b |= 1 << i
		}
	}
	return b
}

// decoder takes a message apart; the first thing that does not fit makes it bad, and all that
// follows zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if d.bad || len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

// flags takes what flagsOf made.
func (d *decoder) flags(all ...*bool) {
	b := d.byte()
	for i, f := range all {
		*f = b&(1<<i) != 0
	}
	d.bad = d.bad || b>>len(all) != 0
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.b)
	if d.bad || size <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) count() int {
	n, size := binary.Uvarint(d.b)
	if d.bad || size <= 0 || n > uint64(len(d.b)-size) { // every element takes a byte at least
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return int(n)
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) texts() []string {
	var all []string
	for n := d.count(); n > 0 && !d.bad; n-- {
		all = append(all, d.text())
	}
	return all
}

func (d *decoder) err() error {
	if d.bad || len(d.b) > 0 {
		return errFrame
	}
	return nil
}

// appendFrame puts a length before a body.
func appendFrame(b, body []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(body))), body...)
}

// readFrame reads a body into buf, or into something larger.
func readFrame(r *bufio.Reader, buf []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	if uint64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err = io.ReadFull(r, buf)
	return buf, err
}
