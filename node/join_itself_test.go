package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

// A peer that lost all but its key comes back with the ticket it made itself, when it was alone.
func TestATicketThatLeadsToThePeerItselfAloneIsRefusedInWords(t *testing.T) {
	t.Parallel()
	one := alive(t, Config{Name: "one"})
	k := one.ticket(api.TicketRequest{Expires: 600})
	if err := one.stop(); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(one.folder.path(keyFile))
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, keyFile), key, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = tryAlive(t, Config{Data: data, Join: k.Ticket})
	wants(t, err, api.NoCoordinator, "itself", "peer ticket", "peer up --join")
}
