// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

// onAdmin tells whether a verb is about the daemon as a whole: the data listener
// on TCP does not answer it.
func onAdmin(verb string) bool {
	switch verb {
	case "status", "top", "requests", "drain", "resume", "scrub":
		return true
	}
	return false
}

// adminHint adds where to ask to the answer of a listener that does not know the
// route of what was asked for.
func adminHint(err error, what string) error {
	var e *client.Error
	if errors.As(err, &e) && e.Code() == api.CodeNotFound {
		return fmt.Errorf("%w; over TCP %s is on the daemon's admin listener (listen.admin of its configuration): give --addr that one", err, what)
	}
	return err
}
