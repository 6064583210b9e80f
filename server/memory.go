// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// DefaultMemoryWait is how long a request waits for its first memory.
const DefaultMemoryWait = 5 * time.Second

// nothingStored is what a deadline leaves of a request that stores.
const nothingStored = "; nothing was stored"

// memoryWait leaves time for the answer, and the request, of one in a hurry.
func (s *Server) memoryWait(x *exchange) time.Duration {
	if x.patience > 0 {
		return min(s.o.MemoryWait, x.patience/2)
	}
	return s.o.MemoryWait
}

// room gets n bytes of the stream budget. A request that has moved nothing yet
// is told within wait that others hold the budget, as it may be slow clients
// that do: they are cut off only after a while, and one who is told can try
// elsewhere. A wait of 0 is as long as ctx.
func room[B any](ctx context.Context, wait time.Duration, get func(context.Context, int64) (B, error), n int64) (B, error) {
	if wait == 0 {
		return get(ctx, n)
	}
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	buf, err := get(short, n)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return buf, api.StatusProblem(api.StatusBusy, "other requests held the memory of limits.stream_bytes for "+wait.String()+"; try again")
	}
	return buf, err
}
