package main

import (
	"strings"
	"testing"
)

func TestAServiceIsNotInstalledWithWhatIsNoTicket(t *testing.T) {
	for _, ticket := range []string{"", "covey1", "nonsense"} {
		if code, _, talk := runWithout(t, "service", "install", "--join", ticket); code != 2 || !strings.Contains(talk, "--join") {
			t.Errorf("%q: exit %d, %s", ticket, code, talk)
		}
	}
}
