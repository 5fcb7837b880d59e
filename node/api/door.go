package api

import (
	"context"
	"time"
)

// DoorBackend says who may ask this peer over TCP. It is asked at the socket only.
type DoorBackend interface {
	AccessTokens(ctx context.Context) (AccessTokens, error)
	// CreateToken draws a token; the answer alone has its secret.
	CreateToken(ctx context.Context, r TokenRequest) (AccessToken, error)
	// RevokeToken ends a token, by its id or its name.
	RevokeToken(ctx context.Context, id string) error
	// OpenWeb opens the door on this machine for a browser, and makes a code for it that is good
	// once.
	OpenWeb(ctx context.Context, r TokenRequest) (WebLink, error)
}

// TokenRequest is the body of POST /v1/tokens and POST /v1/web.
type TokenRequest struct {
	Name    string  `json:"name,omitempty"`
	Scope   Scope   `json:"scope"`   // read, submit or admin
	Expires float64 `json:"expires"` // seconds from now
}

// AccessToken lets programs and browsers ask over TCP.
type AccessToken struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scope   Scope     `json:"scope"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Web     bool      `json:"web,omitempty"`    // of a browser, by `peer web`
	Secret  string    `json:"secret,omitempty"` // to be shown as a bearer; in the answer that made it, and never again
}

// AccessTokens answers GET /v1/tokens.
type AccessTokens struct {
	Tokens []AccessToken `json:"tokens"`
	Open   []string      `json:"open"` // where the door is open now, as URLs
	AsOf   time.Time     `json:"as_of"`
}

// WebLink answers POST /v1/web.
type WebLink struct {
	URL     string    `json:"url"`
	Code    string    `json:"code"`    // becomes a token once, for who shows it at POST /login
	Expires time.Time `json:"expires"` // of the code
}
