//go:build !nextdialect

package ledger

// NextCommand is what a Command has more in the next dialect: nothing yet.
type NextCommand struct{}

// alone tells whether nobody is asked about it.
func (NextCommand) alone() bool { return false }

// NextState is what a State has more in the next dialect.
type NextState struct{}

func (*NextState) apply(*Command) Result { return Result{Refused: CodeInvalid} }
