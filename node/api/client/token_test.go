package client_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func TestAPeerThatIsStartedBetweenReadingItsTokenAndAskingIsAskedAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(token string) {
		if err := os.WriteFile(api.TokenPath(dir), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("of the start before")
	l, err := net.Listen("unix", filepath.Join(dir, "peer.sock"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("Authorization") == api.Bearer+"of this start" {
			_, _ = w.Write([]byte("{}"))
			return
		}
		if asked == 1 {
			write("of this start")
		}
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(api.ErrorBody{Error: &api.Error{Code: api.Refused, Message: "no"}})
	})}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	c := client.New(filepath.Join(dir, "peer.sock"))
	defer c.Close()
	if err := c.Tokens().Revoke(t.Context(), "x"); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	write("of nobody")
	asked = 1
	if err := c.Tokens().Revoke(t.Context(), "x"); api.AsError(err).Code != api.Refused || asked != 2 {
		t.Errorf("with a token that stays wrong: %v, asked %d times", err, asked-1)
	}
}
