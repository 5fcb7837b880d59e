//go:build nextdialect

package ledger

// NextCommand is what a Command has more in the next dialect.
type NextCommand struct {
	Note *Note `cbor:"99,keyasint,omitempty" dialect:"3"`
}

// alone tells whether nobody is asked about it.
func (c NextCommand) alone() bool { return c.Note != nil }

// Note keeps a line of text about the cluster: a command that does nothing else, for tests of
// upgrades.
type Note struct {
	Text string `cbor:"1,keyasint"`
}

// NextState is what a State has more in the next dialect.
type NextState struct {
	Note string `cbor:"99,keyasint,omitempty" dialect:"3"`
}

func (n *NextState) apply(c *Command) Result {
	if c.Note == nil {
		return Result{Refused: CodeInvalid}
	}
	n.Note = c.Note.Text
	return Result{}
}

// NoteOf is the text that a State keeps.
func NoteOf(s *State) string { return s.next.Note }
