// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// ErrTTL says that a time to live is negative. Nothing was sent. It is no way to
// say never, or at once: 0 takes the default.
var ErrTTL = errors.New("time to live is negative")

// ttlMS returns ttl in the wire's unit, rounded up: 0 would mean the default.
func ttlMS(ttl time.Duration) (int64, error) {
	if ttl < 0 {
		return 0, fmt.Errorf("%w: %v", ErrTTL, ttl)
	}
	ms := ttl.Milliseconds()
	if time.Duration(ms)*time.Millisecond < ttl {
		ms++
	}
	return ms, nil
}

func setTTL(query url.Values, ttl time.Duration) error {
	ms, err := ttlMS(ttl)
	if err == nil && ms > 0 {
		query.Set("ttl_ms", strconv.FormatInt(ms, 10))
	}
	return err
}
