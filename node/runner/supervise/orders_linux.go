package supervise

import (
	"errors"
	"slices"
	"syscall"
	"time"
)

var (
	errOldSupervisor = errors.New("the supervisor on its peer is of version 0.1, which passes no stdin on; it is replaced when the tasks it has there have ended")
	errOldApart      = errors.New("the supervisor on its peer is older and does not keep tasks from seeing each other; it is replaced when the tasks it has there have ended")
	errOldBox        = errors.New("the supervisor on its peer is of version 0.1, which keeps nothing from a task; it is replaced when the tasks it has there have ended")
)

// Start runs a process; what becomes of it is told to Sink.
func (c *Client) Start(s Spec) {
	c.mu.Lock()
	c.next = append(c.next, order{kind: orderStart, spec: s})
	if !c.flush() {
		c.wake.Set()
	}
	c.mu.Unlock()
}

// Stop ends one. Its end is told as usual.
func (c *Client) Stop(task, reason string) {
	c.mu.Lock()
	c.next = append(c.next, order{kind: orderStop, task: task, reason: reason})
	c.mu.Unlock()
	c.wake.Set()
}

// Ack says that the ends of these tasks need not be told again. It goes with the next order, or
// after a while.
func (c *Client) Ack(tasks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks = append(c.acks, tasks...)
	if !c.armed && len(c.acks) > 0 {
		c.armed = true
		time.AfterFunc(ackWait, func() {
			c.mu.Lock()
			c.armed = false
			c.mu.Unlock()
			c.wake.Set()
		})
	}
}

// flush writes what is to be said, unless nobody is there to hear it: then it says false. A caller
// that comes while another writes leaves its words to that one. Called with c.mu held, which it
// gives up meanwhile.
func (c *Client) flush() bool {
	for !c.writing && c.up != nil && len(c.next)+len(c.acks) > 0 {
		if !c.marked && c.starting() {
			return false // run does that: it writes to the disk
		}
		if c.spoken < protocolVersion {
			c.refuseNew()
		}
		conn, words := c.up, c.words()
		c.writing = true
		c.mu.Unlock()
		_ = conn.SetWriteDeadline(time.Now().Add(writeWait))
		if _, err := conn.Write(words); err != nil {
			_ = conn.Close() // its reader tells
		}
		c.mu.Lock()
		c.writing = false
	}
	return c.writing || c.up != nil
}

// refuseNew reports tasks that the supervisor does not know how to run: with an empty stdin in
// place of theirs they would do something else, and with nothing kept from them they could do more
// than was agreed. What is kept from a task without having been demanded is not kept from it there,
// which is said once. Called with c.mu held, which it gives up meanwhile.
func (c *Client) refuseNew() {
	why := func(o order) error {
		switch {
		case o.kind != orderStart:
		case o.spec.Box != nil && o.spec.Box.Apart:
			return errOldApart
		case c.spoken >= 2:
		case o.spec.Stdin:
			return errOldSupervisor
		case o.spec.Box != nil && o.spec.Box.Demands:
			return errOldBox
		}
		return nil
	}
	var refuse []order
	bare := false
	for _, o := range c.next {
		if why(o) != nil {
			refuse = append(refuse, o)
		} else if c.spoken < 2 && o.kind == orderStart && o.spec.Box != nil {
			bare = !c.bare
		}
	}
	if len(refuse) == 0 && !bare {
		return
	}
	c.bare = c.bare || bare
	c.next = slices.DeleteFunc(c.next, func(o order) bool { return why(o) != nil })
	c.mu.Unlock()
	if bare {
		c.cfg.Warn("the supervisor of this peer's tasks is of version 0.1 and keeps nothing from them, not even this peer's key; it is replaced when the tasks it has have ended: `peer drain` lets them end")
	}
	for _, o := range refuse {
		c.cfg.Sink(refused(o.spec.Task, why(o)))
	}
	c.mu.Lock()
}

// words encodes what is to be said. Acknowledgements come first: the same attempt may be started
// anew.
func (c *Client) words() (words []byte) {
	var body []byte
	say := func(o order) {
		body = appendOrder(body[:0], o)
		words = appendFrame(words, body)
	}
	if len(c.acks) > 0 {
		say(order{kind: orderAck, tasks: c.acks})
		for _, id := range c.acks {
			delete(c.open, id)
		}
	}
	for _, o := range c.next {
		starts := o.kind == orderStart
		switch {
		case !starts || c.spoken < 2 || o.spec.plain(): // an older one keeps as much of the output as it does of everybody's
		case o.spec.Box != nil:
			o.kind = orderStartIn
		default:
			o.kind = orderStartWith
		}
		say(o)
		if starts {
			c.open[o.spec.Task] = true
		}
	}
	clear(c.next)
	c.next, c.acks = c.next[:0], c.acks[:0]
	return words
}

// send says what Start could not say itself. If a supervisor is needed and none is to be had,
// nothing starts.
func (c *Client) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.marked && c.starting() {
		c.mu.Unlock()
		err := markBoot(c.cfg.Dir)
		c.mu.Lock()
		if c.marked = err == nil; err != nil {
			c.refuse(err)
		}
	}
	if c.flush() {
		return
	}
	if c.up != nil {
		c.wake.Set() // one more has come that needs the mark
		return
	}
	if !c.starting() {
		c.next, c.acks = nil, nil // nobody there: nothing to stop, nothing to acknowledge
		return
	}
	c.mu.Unlock()
	err := c.ensure()
	c.mu.Lock()
	if err != nil {
		c.refuse(err)
		return
	}
	c.flush()
}

// starting tells whether a process is to be started. Called with c.mu held.
func (c *Client) starting() bool {
	return slices.ContainsFunc(c.next, func(o order) bool { return o.kind == orderStart })
}

// refuse reports what cannot be started. Called with c.mu held, which it gives up meanwhile.
func (c *Client) refuse(err error) {
	var starts, others []order
	for _, o := range c.next {
		if o.kind == orderStart {
			starts = append(starts, o)
		} else {
			others = append(others, o)
		}
	}
	c.next = others
	c.mu.Unlock()
	for _, o := range starts {
		e := refused(o.spec.Task, err)
		if c.foreign == nil && !TakesNothing(err) { // no program is to blame, whatever the error
			e.Errno = int(syscall.EAGAIN)
		}
		c.cfg.Sink(e)
	}
	c.mu.Lock()
}
