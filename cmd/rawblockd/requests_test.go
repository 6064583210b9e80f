// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

func TestRequestsVerb(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	var res api.RequestsResponse
	asJSON(t, &res, "requests", "--addr", addr, "--json")
	if res.Total != 1 || len(res.Requests) != 1 || res.Requests[0].Route != "/v1/requests" {
		t.Errorf("--json: got %+v", res)
	}
	got := ok(t, "requests", "--addr", addr)
	if !regexp.MustCompile(`^ID +AGE +STAGE +SLAB +METHOD +ROUTE +NAMESPACE +KEYS +IN +OUT +REMOTE\n\d+ +\d+m?s +\w+ +- +GET +/v1/requests +- +0 +0 B +0 B +.+\n$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}
