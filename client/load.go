// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
)

// Loaded is one key of a load. Only an ok one has a Body, of Bytes bytes, which
// the daemon has verified; it is valid until the next step of the iteration and
// need not be read to its end.
type Loaded struct {
	Key    string
	Status api.Status
	Bytes  int64
	Error  string // why, for people; only where Status is not ok
	Body   io.Reader
}

// Load yields keys in the order asked for, while later ones are still read.
// An error is yielded last: the keys before it are good, the rest is unknown.
// To stop early closes the connection.
func (c *Client) Load(ctx context.Context, keys []string) iter.Seq2[Loaded, error] {
	return func(yield func(Loaded, error) bool) {
		resp, err := c.startLoad(ctx, keys)
		if err != nil {
			yield(Loaded{}, err)
			return
		}
		defer func() { _ = resp.Body.Close() }() // every frame was checked, or is not wanted
		frames := api.NewFrameReader(resp.Body)
		for i := 0; ; i++ {
			fr, err := frames.Next()
			if errors.Is(err, io.EOF) && i == len(keys) {
				return
			}
			if err := checkFrame(fr, err, keys, i); err != nil {
				yield(Loaded{}, fmt.Errorf("load at %s: %w", c.addr, err))
				return
			}
			l := Loaded{Key: keys[i], Status: fr.Status, Bytes: fr.Bytes, Error: fr.Error}
			if fr.Status == api.StatusOK {
				l.Body = frames
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

func (c *Client) startLoad(ctx context.Context, keys []string) (*http.Response, error) {
	text, err := json.Marshal(api.LoadRequest{Batch: c.batch(ctx, keys)})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	req, err := c.request(ctx, http.MethodPost, "/v1/batch/load", nil, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", api.MediaJSON)
	req.Header.Set("Accept", api.MediaFrames)
	return c.do(req)
}

// checkFrame makes sure that frame i is the answer for key i: without it a
// daemon, or a proxy, that loses a frame would give a key another's bytes.
func checkFrame(fr api.Frame, err error, keys []string, i int) error {
	switch {
	case errors.Is(err, io.EOF) && i < len(keys):
		return fmt.Errorf("the answer ended after %d of %d keys: %w", i, len(keys), io.ErrUnexpectedEOF)
	case err != nil:
		return err
	case i >= len(keys):
		return fmt.Errorf("%w: more than the %d keys asked for", api.ErrFrame, len(keys))
	case fr.Key != keys[i] && (fr.Key != "" || api.IsFramed(keys[i])):
		return fmt.Errorf("%w: frame %d is for key %q, want %q", api.ErrFrame, i, fr.Key, keys[i])
	case fr.Status == "":
		return fmt.Errorf("%w: frame %d has no status", api.ErrFrame, i)
	}
	return nil
}
