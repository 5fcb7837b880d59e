package admission

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/wire"
)

// answerOf01 is JoinAnswer as version 0.1 reads it.
type answerOf01 struct {
	Entry   struct{}   `cbor:"1,keyasint"`
	Roster  []struct{} `cbor:"2,keyasint,omitempty"`
	Refusal *Refusal   `cbor:"6,keyasint,omitempty"`
}

func TestANewcomerOfVersion01IsToldWhyItCannotJoin(t *testing.T) {
	var in, out bytes.Buffer
	if err := wire.NewWriter(&in, 0).Send(JoinRequest{Cluster: "abc"}); err != nil {
		t.Fatal(err)
	}
	s := &server{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
	if err := s.joinOld(t.Context(), "old", wire.NewReader(&in, StrangerFrame), wire.NewWriter(&out, 0)); err != nil {
		t.Fatal(err)
	}
	var f struct {
		Answer *answerOf01 `cbor:"1,keyasint,omitempty"`
	}
	if err := wire.NewReader(&out, 0).Read(&f); err != nil || f.Answer == nil {
		t.Fatalf("it reads %+v: %v", f, err)
	}
	a := f.Answer
	if a.Refusal == nil || !strings.Contains(a.Refusal.Error(), "newer version") {
		t.Fatalf("it reads %+v", a.Refusal)
	}
}
