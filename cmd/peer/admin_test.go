package main

import (
	"context"
	"errors"
	"testing"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api/client"
)

// Who types `peer down && peer up` must not be told that a peer still runs: one that does not
// answer any more may be closing its files.
func TestAPeerIsGoneWhenItsFolderIsFree(t *testing.T) {
	c := &cli{data: t.TempDir()}
	n, err := node.New(node.Config{Data: c.data, Name: "one", Listen: []string{"127.0.0.1:0"}, NoMDNS: true})
	if err != nil {
		t.Fatal(err)
	}
	cmd := downCommand(c)
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	cmd.SetContext(soon)
	silent := client.New(c.data + "/none.sock")
	if err := awaitGone(cmd.Context(), c.data, silent); !errors.Is(err, context.Canceled) {
		t.Errorf("it still holds its folder: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	cmd.SetContext(t.Context())
	if err := awaitGone(cmd.Context(), c.data, silent); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}
