// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

// block returns the README's code block after the mark, and the one after that.
func block(t *testing.T, mark string) (code, printed string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), mark)
	parts := strings.Split(rest, "```")
	if !found || len(parts) < 4 {
		t.Fatalf("README has no two blocks after %q", mark)
	}
	return strings.TrimPrefix(parts[1], "sh\n"), strings.TrimPrefix(parts[3], "\n")
}

// The README's main job, through curl alone, on 4 GiB devices with sectors of
// 512 and of 4096 bytes. README says what it prints.
func TestReadmeCurl(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq", "cmp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the README's curl block cannot run", tool)
		}
	}
	code, want := block(t, "<!-- test: curl -->")
	for _, sector := range []int{512, 4096} {
		t.Run(fmt.Sprint(sector), func(t *testing.T) {
			device := testdev.Loop(t, 4<<30, sector)
			ok(t, "init", device)
			dir := shortDir(t)
			c := config.Dev(dir)
			c.Listen.HTTP, c.Listen.Admin = "", ""
			c.Meta.MinFree = config.MiB
			c.Slabs[0].Device = device
			serve(t, "--config", write(t, c))

			cmd := exec.CommandContext(t.Context(), "bash", "-c", code)
			cmd.Env = append(os.Environ(), "S="+filepath.Join(dir, "rawblockd.sock"), "TMPDIR="+t.TempDir())
			got, err := cmd.CombinedOutput()
			if err != nil || string(got) != want {
				t.Errorf("%v: printed\n%s\nREADME says\n%s", err, got, want)
			}
		})
	}
}
