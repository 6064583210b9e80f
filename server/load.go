// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// flushFrom is the payload length, in bytes, from which a frame is pushed out
// when it is complete instead of waiting for the next one to fill up the
// connection's small buffer.
const flushFrom = 64 << 10

// batchLoad answers with frames, one per key in request order, while later
// reads are under way. A key's line goes out only after all its bytes are
// verified, so a frame that says ok is followed by exactly the right bytes or by
// a broken connection.
func (s *Server) batchLoad(x *exchange, r *http.Request) error {
	req, st, err := call(s, x, r, api.DecodeLoad)
	if err != nil {
		return err
	}
	s.metrics.batch("load", len(req.Keys))
	ctx, cancel := s.within(x, r, req.DeadlineMS)
	defer cancel()
	loading, err := st.LoadWithin(ctx, req.Namespace, req.Keys, s.o.MemoryWait)
	if err != nil {
		return err
	}
	defer loading.Close()
	x.hold.take(memory)
	x.Header().Set("Content-Type", api.MediaFrames)
	x.WriteHeader(http.StatusOK)
	frames := api.NewFrameWriter(x)
	short := error(nil) // why there was no memory for the batch
	defer func() { s.metrics.outOfMemory(short) }()
	for {
		item, more := loading.Next()
		if !more {
			return frames.Close()
		}
		if item.Status == store.Busy {
			short = cmp.Or(short, item.Err)
		}
		if err := x.frame(frames, item); err != nil {
			return err
		}
	}
}

func (x *exchange) frame(frames *api.FrameWriter, item store.LoadItem) error {
	if item.Status != store.OK {
		return frames.Begin(api.Frame{Key: item.Key, Status: word(item.Status), Error: x.explainKey(item.Key, store.KeyResult{Status: item.Status, Err: item.Err})})
	}
	defer item.Buf.Release()
	if err := frames.Begin(api.Frame{Key: item.Key, Status: api.StatusOK, Bytes: item.Bytes}); err != nil {
		return err
	}
	if err := payload(frames, item.Buf); err != nil {
		return err
	}
	if item.Bytes < flushFrom {
		return nil
	}
	return x.rc.Flush()
}
