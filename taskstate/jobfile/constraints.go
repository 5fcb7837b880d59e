package jobfile

import (
	"fmt"

	"covey/taskstate"
)

// conditions checks what peers must be like.
func (ps *checks) conditions(j *taskstate.Job) {
	for i, c := range j.Constraints {
		at := fmt.Sprintf("constraints[%d]", i)
		switch {
		case len(c) > maxConstraint || !plain(c):
			ps.bad(at, "want UTF-8 text of at most %s bytes without zero bytes", grouped(maxConstraint))
		case c == "":
			ps.bad(at, "it is empty; want a condition, as in peer.os == linux")
		}
	}
}
