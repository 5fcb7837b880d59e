package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// HaveBlobs says which of some blobs the peer has whole.
func (c *Client) HaveBlobs(ctx context.Context, b Blobs) (Blobs, error) {
	return call[Blobs](ctx, c, http.MethodPost, "/v1/files/have", b)
}

// errStopped ends a write when the peer has answered.
var errStopped = errors.New("the peer reads no more")

// PutFiles has the peer keep what write writes.
func (c *Client) PutFiles(ctx context.Context, write func(*PutWriter) error) (v Put, err error) {
	out, in := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(&PutWriter{bufio.NewWriterSize(in, 256<<10)})
		_ = in.CloseWithError(err)
		wrote <- err
	}()
	resp, err := c.send(ctx, http.MethodPut, "/v1/files", out)
	_ = out.CloseWithError(errStopped)
	if werr := <-wrote; werr != nil && !errors.Is(werr, errStopped) && !errors.Is(werr, io.ErrClosedPipe) {
		err = werr // it could not even be read here
	}
	if resp == nil {
		return v, err
	}
	defer resp.Body.Close()
	if err == nil {
		v, err = decode[Put](ctx, resp.Body)
	}
	return v, err
}

// Unput has the peer let go of what was put there.
func (c *Client) Unput(ctx context.Context, ref string) (Put, error) {
	return call[Put](ctx, c, http.MethodDelete, "/v1/files?ref="+url.QueryEscape(ref), nil)
}

// GetFiles asks for blobs; the reader must be closed.
func (c *Client) GetFiles(ctx context.Context, q GetFiles) (*FileReader, error) {
	resp, err := c.do(ctx, http.MethodPost, "/v1/files/get", q)
	if err != nil {
		return nil, err
	}
	lost := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.unreachable(err)
	}
	return &FileReader{r: bufio.NewReaderSize(resp.Body, 256<<10), body: resp.Body, lost: lost}, nil
}

// StoreUsage says what the peer's store holds.
func (c *Client) StoreUsage(ctx context.Context) (StoreUsage, error) {
	return call[StoreUsage](ctx, c, http.MethodGet, "/v1/store", nil)
}
