// SPDX-License-Identifier: Apache-2.0

package server

import "time"

// DefaultMemoryWait is how long a request that has had no memory yet waits for some
// while nothing moves in what others hold. As long as it moves the request's turn
// will come; when it does not it may be a device that hangs, and one who is told can
// try elsewhere.
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
