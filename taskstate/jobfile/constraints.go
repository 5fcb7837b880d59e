package jobfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// conditions checks what peers must be like. The language is read by the package that carries it
// out, so that what is accepted here is understood there.
func (ps *checks) conditions(j *taskstate.Job) {
	before := len(*ps)
	for i, c := range j.Constraints {
		if _, err := constraint.Parse(c); err != nil {
			ps.bad(fmt.Sprintf("constraints[%d]", i), "%v", err)
		} else if k := slices.Index(j.Constraints[:i], c); k >= 0 {
			ps.bad(fmt.Sprintf("constraints[%d]", i), "it is the same as constraints[%d]", k)
		}
	}
	var e *constraint.Error
	if _, err := constraint.ParseAll(j.Constraints); len(*ps) == before && errors.As(err, &e) { // what each may be, and all together may not
		ps.bad(fmt.Sprintf("constraints[%d]", e.Index), "%s, as in: %s", e.Problem, e.Example)
	}
	if _, err := constraint.ParseOver(j.Over); err != nil {
		if errors.As(err, &e) {
			err = fmt.Errorf("%s, as in %s", e.Problem, e.Example)
		}
		ps.bad("placement.over", "%v", err)
	}
}
