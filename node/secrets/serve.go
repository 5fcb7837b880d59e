package secrets

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/seal"
)

// Serve seals for other peers what was given to this one, until the returned function is called.
func (s *Secrets) Serve() func() { return limit.Serve(s.cfg.Net, Protocol, s.handle).Close }

func (s *Secrets) handle(ctx context.Context, peer string, c net.Conn, busy bool) {
	var a answer
	if busy {
		a.Error = &Error{Code: CodeBusy, Message: "it is asked for too many at the moment"}
	} else {
		a = s.answer(ctx, peer, c)
	}
	_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	if err := wire.NewWriter(c, maxAnswer).Send(a); err != nil || a.Error != nil {
		s.cfg.Log.Info("secrets were not handed over", "peer", peer, "why", a.Error, "err", err)
	}
}

func (s *Secrets) answer(ctx context.Context, peer taskstate.PeerID, c net.Conn) answer {
	_ = c.SetReadDeadline(time.Now().Add(limit.RequestTimeout))
	var q Request
	if err := wire.NewReader(c, maxRequest).Read(&q); err != nil {
		return answer{Error: &Error{Code: CodeBad, Message: "that is no request for secrets"}}
	}
	sealed, err := s.again(ctx, peer, q)
	if told, ok := errors.AsType[*Error](err); ok {
		return answer{Error: told}
	}
	if err != nil {
		return answer{Error: &Error{Code: CodeNone, Message: err.Error()}}
	}
	return answer{Sealed: sealed}
}

// again seals the secrets of a task to the peer that is to run it.
func (s *Secrets) again(ctx context.Context, peer taskstate.PeerID, q Request) ([]byte, error) {
	if _, err := q.Task.Folder(); err != nil || seal.CheckRecipient(q.Recipient) != nil {
		return nil, &Error{Code: CodeBad, Message: "that is no request for secrets"}
	}
	job, err := s.cfg.Grants(ctx, peer, q)
	switch {
	case err != nil:
		return nil, err
	case job.Secrets == nil || job.Secrets.By != s.cfg.Self:
		return nil, &Error{Code: CodeNone, Message: "the secrets of that job were not given here"}
	}
	b, err := s.open(job)
	if errors.Is(err, seal.ErrNotForMe) {
		return nil, &Error{Code: CodeNone, Message: "it cannot open them any more, since its seal.key is another one now; submit the job again, with its secrets"}
	}
	if err != nil {
		return nil, err
	}
	sealed, _, err := seal.Seal(b, []string{q.Recipient})
	return sealed, err
}
