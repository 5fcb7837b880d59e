package testnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// Order is what another command of the same user asks of a running testnet. Op is one of status,
// kill, restart, partition, heal, slow, down.
type Order struct {
	Op     string  `json:"op"`
	Peer   int     `json:"peer,omitempty"`
	Groups [][]int `json:"groups,omitempty"`
	Rate   int64   `json:"rate,omitempty"` // bytes per second; 0: no limit
}

// Row is one peer in the answer to status.
type Row struct {
	Peer    int    `json:"peer"`
	ID      string `json:"id"`
	Running bool   `json:"running"`
	PID     int    `json:"pid"`
	Data    string `json:"data"`
	Group   int    `json:"group"` // of the partition in force; 0: none
	Rate    int64  `json:"rate"`  // bytes per second that its connections carry; 0: no limit
}

// Answer answers an Order.
type Answer struct {
	Error *api.Error `json:"error,omitempty"`
	Peers []Row      `json:"peers,omitempty"`
}

// ControlPath is the control socket of the testnet in dir.
func ControlPath(dir string) string { return api.SocketPath(filepath.Join(dir, "control")) }

// orderLimit bounds one order, a restart included.
const orderLimit = 60 * time.Second

// Serve answers orders until ctx ends or `down` is ordered. It calls ready once it can be asked.
func (n *Net) Serve(ctx context.Context, ready func()) error {
	ctx, down := context.WithCancel(ctx)
	defer down()
	if err := mkdirOf(ControlPath(n.cfg.Dir)); err != nil {
		return err
	}
	l, err := api.Listen(ControlPath(n.cfg.Dir))
	if err != nil {
		return fmt.Errorf("testnet control: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	ready()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("testnet control: %w", err)
		}
		wg.Go(func() { n.answer(ctx, c, down) })
	}
}

func (n *Net) answer(ctx context.Context, c net.Conn, down func()) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(orderLimit))
	var o Order
	if err := json.NewDecoder(c).Decode(&o); err != nil {
		return // the peer that dialled went away
	}
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	err := n.obey(ctx, o)
	a := Answer{Peers: n.rows()}
	if err != nil {
		a.Error = api.AsError(err)
	}
	_ = json.NewEncoder(c).Encode(a)
	if o.Op == "down" {
		down()
	}
}

func (n *Net) obey(ctx context.Context, o Order) error {
	switch o.Op {
	case "status", "down":
		return nil
	case "kill":
		return n.Kill(o.Peer)
	case "restart":
		return n.Restart(ctx, o.Peer)
	case "partition":
		return n.Partition(ctx, o.Groups)
	case "heal":
		return n.Heal(ctx)
	case "slow":
		return n.Slow(ctx, o.Peer, o.Rate)
	}
	return api.Errorf(api.Usage, "a testnet cannot %q", o.Op)
}

func (n *Net) rows() []Row {
	var rows []Row
	for _, p := range n.peers {
		r := Row{Peer: p.k, Data: p.data, Running: n.Running(p.k)}
		n.mu.Lock()
		r.ID, r.Rate = p.id, p.rate
		if r.Running {
			r.PID = p.cmd.Process.Pid
		}
		for i, g := range n.cut {
			for _, k := range g {
				if k == p.k {
					r.Group = i + 1
				}
			}
		}
		n.mu.Unlock()
		rows = append(rows, r)
	}
	return rows
}

// Do sends an order to the testnet in dir.
func Do(ctx context.Context, dir string, o Order) (Answer, error) {
	var a Answer
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", ControlPath(dir))
	if err != nil {
		return a, api.Errorf(api.NoCoordinator, "no testnet runs in %s; start one with `peer testnet up -n 5`", dir)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := json.NewEncoder(c).Encode(o); err != nil {
		return a, fmt.Errorf("order the testnet: %w", err)
	}
	if err := json.NewDecoder(c).Decode(&a); err != nil {
		return a, errors.Join(ctx.Err(), fmt.Errorf("the testnet did not answer: %w", err))
	}
	if a.Error != nil {
		return a, a.Error
	}
	return a, nil
}

// ParseGroups reads 1,2/3,4,5.
func ParseGroups(s string) ([][]int, error) {
	var groups [][]int
	seen := map[int]bool{}
	for g := range strings.SplitSeq(s, "/") {
		var group []int
		for x := range strings.SplitSeq(g, ",") {
			k, err := strconv.Atoi(strings.TrimSpace(x))
			if err != nil || k < 1 || seen[k] {
				return nil, api.Errorf(api.Usage, "groups %q: expected numbers of peers, each once, as in 1,2/3,4,5", s)
			}
			seen[k] = true
			group = append(group, k)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

func mkdirOf(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return api.Errorf(api.Failed, "cannot make the folder of the control socket: %v", err)
	}
	return nil
}
