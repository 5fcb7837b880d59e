package p2p_test

import (
	"context"
	"testing"
	"time"
)

func TestAPeerThatIsDialledByUDPIsReachedWhereItListensAndNowhereElse(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	if err := connect(t, a, b.Self(), transportOf(b.Addrs(), false)); err != nil {
		t.Fatal(err)
	}
	ports := b.PortsUDP()
	if len(ports) == 0 {
		t.Fatal("it listens nowhere")
	}
	var known, reached bool
	_ = again(ctx(t), func() error {
		if known, reached = a.DialUDP(ctx(t), b.Self(), ports); known && !reached {
			return context.DeadlineExceeded // it does not say why: a dial has three seconds
		}
		return nil
	})
	if !known || !reached {
		t.Errorf("known %v, reached %v at %v", known, reached, ports)
	}
	soon, cancel := timeout(200 * time.Millisecond)
	defer cancel()
	if known, reached := a.DialUDP(soon, b.Self(), []uint16{9}); !known || reached {
		t.Errorf("known %v, reached %v where nobody listens", known, reached)
	}
	if known, _ := a.DialUDP(ctx(t), b.Self(), make([]uint16, 5)); known {
		t.Error("more ports than anybody needs were dialled")
	}
	stranger := start(t, everybody())
	if known, _ := a.DialUDP(ctx(t), stranger.Self(), ports); known {
		t.Error("who is not connected was dialled")
	}
}
