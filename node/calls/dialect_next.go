//go:build nextdialect

package calls

import "github.com/coveyproject/covey/dispatch/ledger"

// NextCall is what a Call has more in the next dialect.
type NextCall struct {
	Note *ledger.Note `cbor:"99,keyasint,omitempty" dialect:"3"`
}

func (n NextCall) asks() []bool { return []bool{n.Note != nil} }

// Command is what it asks for.
func (n NextCall) Command() ledger.NextCommand { return ledger.NextCommand{Note: n.Note} }
