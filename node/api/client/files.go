package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/coveyproject/covey/node/api"
)

// HaveBlobs says which of some blobs the peer has whole.
func (c *Client) HaveBlobs(ctx context.Context, b api.Blobs) (api.Blobs, error) {
	return call[api.Blobs](ctx, c, http.MethodPost, "/v1/files/have", b)
}

// errStopped ends a write when the peer has answered.
var errStopped = errors.New("the peer reads no more")

// PutFiles has the peer keep what write writes.
func (c *Client) PutFiles(ctx context.Context, write func(*api.PutWriter) error) (v api.Put, err error) {
	out, in := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(api.NewPutWriter(in))
		_ = in.CloseWithError(err)
		wrote <- err
	}()
	resp, err := c.do(ctx, http.MethodPut, "/v1/files", "", out)
	_ = out.CloseWithError(errStopped)
	if werr := <-wrote; werr != nil && !errors.Is(werr, errStopped) && !errors.Is(werr, io.ErrClosedPipe) {
		err = werr // it could not even be read here
	}
	if resp == nil {
		return v, err
	}
	defer resp.Body.Close()
	if err == nil {
		v, err = decode[api.Put](ctx, c, resp.Body)
	}
	return v, err
}

// Unput has the peer let go of what was put there.
func (c *Client) Unput(ctx context.Context, ref string) (api.Put, error) {
	return call[api.Put](ctx, c, http.MethodDelete, "/v1/files?ref="+url.QueryEscape(ref), nil)
}

// GetFiles asks for blobs; the reader must be closed.
func (c *Client) GetFiles(ctx context.Context, q api.GetFiles) (*api.FileReader, error) {
	resp, err := c.do(ctx, http.MethodPost, "/v1/files/get", "", q)
	if err != nil {
		return nil, err
	}
	lost := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.unreachable(err)
	}
	return api.NewFileReader(resp.Body, lost), nil
}

// StoreUsage says what the peer's store holds.
func (c *Client) StoreUsage(ctx context.Context) (api.StoreUsage, error) {
	return call[api.StoreUsage](ctx, c, http.MethodGet, "/v1/store", nil)
}
