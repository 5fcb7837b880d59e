package ledger

import "context"

const FollowProtocol = "/covey/follow/1"
const VoterProtocol = "/covey/voter/1"

type syncState struct{}
type configLock chan struct{}

func newConfigLock() configLock { return make(configLock, 1) }

func (n *Node) handleFollow(peer string, c connT)      { c.Close() }
func (n *Node) handleVoter(peer string, c connT)       { c.Close() }
func (n *Node) tend(ctx context.Context, s *seat)      { <-ctx.Done() }
func (n *Node) runFollow(ctx context.Context)          { <-ctx.Done() }
