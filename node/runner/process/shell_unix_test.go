//go:build unix

package process

import (
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestAShellLineMeetsAnItemWithQuotesUnharmed(t *testing.T) {
	h := start(t, nil)
	l := launch(process(taskstate.Process{Shell: true, Braces: true, Command: []string{`printf '%s|' "${COVEY_ITEM}" {} $((1+1))`}}), 1)
	l.Item = `a 'b' "c" $(touch evil) ; {}`
	h.Start(l)
	h.end(l.Task)
	if got, want := h.file(l.Task, "stdout"), l.Item+"|"+l.Item+"|2|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
