// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// TestReasonsShown: status and top say in the table how a slab is, below it why, and
// above it why stores are refused.
func TestReasonsShown(t *testing.T) {
	st := api.StatusReport{Ready: true, StoresRefused: "there is 1 byte free", Slabs: []api.SlabStatus{
		{Name: "a", Health: "online"},
		{Name: "b", Health: "missing", Reason: "a long sentence"},
		{Name: "c", Health: "degraded", Reason: "another"},
	}}
	var top, status bytes.Buffer
	sample := topSample{StatusReport: st}
	if err := rates(sample, sample).write(&top); err != nil {
		t.Fatal(err)
	}
	if err := (&cli{stdout: &status}).printStatus(st); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"top": top.String(), "status": status.String()} {
		table, below, ok := strings.Cut(text, "\nb is missing: a long sentence\nc is degraded: another\n\n")
		if !ok || strings.Contains(table, "sentence") || !strings.Contains(table, "\nb     missing   ") || !strings.Contains(below, "NAMESPACE") || strings.Contains(text, "a is online") {
			t.Errorf("%s: got\n%s", name, text)
		}
		if !strings.Contains(table, "serving, but stores are refused") || !strings.Contains(table, "stores are refused: there is 1 byte free\n") {
			t.Errorf("%s: does not say that stores are refused:\n%s", name, text)
		}
	}
}
