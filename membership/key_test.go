package membership_test

import (
	"testing"

	"github.com/coveyproject/covey/p2p"

	"github.com/libp2p/go-libp2p/core/crypto"
)

type p2pKey = crypto.PrivKey

func newKey(t *testing.T) p2pKey {
	t.Helper()
	k, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return k
}
