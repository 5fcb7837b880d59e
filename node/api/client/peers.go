package client

import (
	"context"
	"net/http"

	"github.com/coveyproject/covey/node/api"
)

// Peer tells about one peer.
func (c *Client) Peer(ctx context.Context, peer string) (api.PeerAnswer, error) {
	return call[api.PeerAnswer](ctx, c, http.MethodGet, peerPath(peer, ""), nil)
}

// Examine tells whether a peer is well.
func (c *Client) Examine(ctx context.Context, peer string) (api.Checkup, error) {
	return call[api.Checkup](ctx, c, http.MethodGet, peerPath(peer, "/doctor"), nil)
}

// SetAvailability decides whether a peer takes tasks.
func (c *Client) SetAvailability(ctx context.Context, peer string, a api.Availability) (api.PeerAnswer, error) {
	return call[api.PeerAnswer](ctx, c, http.MethodPost, peerPath(peer, "/availability"), a)
}

// SetRoles changes what a peer may do.
func (c *Client) SetRoles(ctx context.Context, peer string, r api.Roles) (api.PeerAnswer, error) {
	return call[api.PeerAnswer](ctx, c, http.MethodPost, peerPath(peer, "/roles"), r)
}

// SetLabels changes the labels of a peer.
func (c *Client) SetLabels(ctx context.Context, peer string, l api.Labels) (api.PeerAnswer, error) {
	return call[api.PeerAnswer](ctx, c, http.MethodPost, peerPath(peer, "/labels"), l)
}

// Draining calls each with what is left on a drained peer until nothing is.
func (c *Client) Draining(ctx context.Context, peer string, each func(api.Draining) error) error {
	return stream(ctx, c, peerPath(peer, "/drain"), each)
}

// Settings tells what holds for the whole cluster.
func (c *Client) Settings(ctx context.Context) (api.SettingsAnswer, error) {
	return call[api.SettingsAnswer](ctx, c, http.MethodGet, "/v1/settings", nil)
}

// Set changes the settings that are not zero.
func (c *Client) Set(ctx context.Context, s api.Settings) (api.SettingsAnswer, error) {
	return call[api.SettingsAnswer](ctx, c, http.MethodPost, "/v1/settings", s)
}

// Trust tells what this machine lets run.
func (c *Client) Trust(ctx context.Context) (api.Trust, error) {
	return call[api.Trust](ctx, c, http.MethodGet, "/v1/trust", nil)
}

// TryTrust tells what would become of a task.
func (c *Client) TryTrust(ctx context.Context, t api.TrustTry) (api.TrustTried, error) {
	return call[api.TrustTried](ctx, c, http.MethodPost, "/v1/trust/test", t)
}

func peerPath(peer, rest string) string { return "/v1/peers/" + segment(peer) + rest }
