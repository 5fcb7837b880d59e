//go:build !nextdialect

package calls

import "github.com/coveyproject/covey/dispatch/ledger"

// NextCall is what a Call has more in the next dialect: nothing yet.
type NextCall struct{}

func (NextCall) asks() []bool { return nil }

// Command is what it asks for.
func (NextCall) Command() ledger.NextCommand { return ledger.NextCommand{} }
