package membership

import (
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/p2p/memnet"
)

func TestWhatIsRememberedIsOnDiskAtOnce(t *testing.T) {
	host := memnet.New().Host("self")
	path := filepath.Join(t.TempDir(), "book")
	m, err := New(Config{Net: host, Host: host, Incarnation: "0123456789abcdef", Book: path})
	if err != nil {
		t.Fatal(err)
	}
	m.Remember([]PeerAddr{{ID: "self", Addrs: []string{"/ip4/127.0.0.1/tcp/1"}}, {ID: "other", Addrs: []string{"/ip4/127.0.0.1/tcp/2"}}, {}})
	b, torn, err := openBook(path)
	if err != nil || torn != 0 {
		t.Fatal(torn, err)
	}
	if len(b.peers) != 1 || b.peers["other"].Addrs[0] != "/ip4/127.0.0.1/tcp/2" {
		t.Fatalf("the book holds %v, want other alone", b.peers)
	}
}
