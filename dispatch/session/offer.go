package session

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what a worker says about itself. Its name and incarnation go into the ledger of all.
const (
	MaxWord      = 128     // bytes of an incarnation, a name, a label's key or value
	MaxLabels    = 256     // labels of one peer
	maxAddrs     = 64      // addresses of one peer
	MaxTrouble   = 512     // of what keeps it from taking tasks
	MaxResources = 1 << 50 // thousandths of a processor, bytes: far above any machine, far below an overflow of sums
)

// Load is how busy a machine is with all that runs on it. What it does not tell is nil.
type Load struct {
	CPU      *int   `cbor:"1,keyasint,omitempty"` // thousandths of all its processors that were busy in the last seconds
	Memory   *int64 `cbor:"2,keyasint,omitempty"` // bytes in use, of MemoryOf
	MemoryOf int64  `cbor:"3,keyasint,omitempty"`
	Average  *int   `cbor:"4,keyasint,omitempty"` // hundredths of programs that ran or wanted to, over a minute
}

const maxAverage = 100_000_000 // hundredths: far above any machine

// Check refuses what no machine tells.
func (l *Load) Check() error {
	switch {
	case l.CPU != nil && (*l.CPU < 0 || *l.CPU > 1000):
		return errors.New("processors: expected 0 to 1000 thousandths that are busy")
	case l.MemoryOf < 0 || l.MemoryOf > MaxResources, l.Memory != nil && (*l.Memory < 0 || *l.Memory > l.MemoryOf):
		return errors.New("memory: expected no more in use than there is")
	case l.Average != nil && (*l.Average < 0 || *l.Average > maxAverage):
		return errors.New("load average: expected 0 to a million")
	}
	return nil
}

// Check tells why the offer cannot be made, for the peer that means to make it; the coordinator
// refuses such a one.
func (o *Offer) Check() error {
	r := o.Resources
	switch {
	case r.MilliCPU < 0 || r.MilliCPU > MaxResources:
		return errors.New("processors: expected 0 to a million million")
	case r.Memory < 0 || r.Memory > MaxResources:
		return errors.New("memory: expected 0 to 1 PiB")
	case r.Disk < 0 || r.Disk > MaxResources:
		return errors.New("disk: expected 0 to 1 PiB")
	case r.Others.Check() != nil:
		return r.Others.Check()
	case len(o.Addrs) > maxAddrs:
		return fmt.Errorf("%d addresses, at most %d are allowed", len(o.Addrs), maxAddrs)
	case len(o.Labels) > MaxLabels:
		return fmt.Errorf("%d labels, at most %d are allowed", len(o.Labels), MaxLabels)
	case !printed(o.Name) || !printed(o.OS) || !printed(o.Arch):
		return fmt.Errorf("the name or the system is no printable text of at most %d bytes", MaxWord)
	case len(o.Trouble) > MaxTrouble || !utf8.ValidString(o.Trouble):
		return fmt.Errorf("the trouble is no text of at most %d bytes", MaxTrouble)
	case len(o.NoFiles) > MaxTrouble || !utf8.ValidString(o.NoFiles):
		return fmt.Errorf("what keeps it from storing files is no text of at most %d bytes", MaxTrouble)
	case !ShortText(o.TroubleCode):
		return fmt.Errorf("the code of the trouble is no text of at most %d bytes", MaxWord)
	}
	if o.Policy != nil {
		if err := o.Policy.Check(); err != nil {
			return err
		}
	}
	for k, v := range o.Labels {
		if k == "" || !printed(k) || !printed(v) {
			return fmt.Errorf("label %.40q: key and value are printable texts of at most %d bytes", k, MaxWord)
		}
	}
	return nil
}

// printed tells whether a short text shows all there is in it: others see it in their terminals.
func printed(s string) bool {
	return ShortText(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func ShortText(s string) bool { return len(s) <= MaxWord && utf8.ValidString(s) }
