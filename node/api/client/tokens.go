package client

import (
	"context"
	"net/http"

	"github.com/coveyproject/covey/node/api"
)

// Tokens is the door of a peer's API over TCP, and who may come in by it.
type Tokens struct{ c *Client }

// Tokens asks about the door of the peer the client talks to.
func (c *Client) Tokens() Tokens { return Tokens{c} }

// List lists the tokens that let programs in.
func (t Tokens) List(ctx context.Context) (api.AccessTokens, error) {
	return call[api.AccessTokens](ctx, t.c, http.MethodGet, "/v1/tokens", nil)
}

// Create draws one.
func (t Tokens) Create(ctx context.Context, r api.TokenRequest) (api.AccessToken, error) {
	return call[api.AccessToken](ctx, t.c, http.MethodPost, "/v1/tokens", r)
}

// Revoke ends one.
func (t Tokens) Revoke(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, t.c, http.MethodDelete, "/v1/tokens/"+segment(id), nil)
	return err
}

// OpenWeb opens the door for a browser on this machine.
func (t Tokens) OpenWeb(ctx context.Context, r api.TokenRequest) (api.WebLink, error) {
	return call[api.WebLink](ctx, t.c, http.MethodPost, "/v1/web", r)
}
