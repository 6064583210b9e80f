// SPDX-License-Identifier: Apache-2.0

package testdev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/goleak"
)

// Main runs a package's tests, for TestMain, and fails the package if they leave
// a goroutine or a file descriptor behind.
func Main(m goleak.TestingM) {
	before := descriptors()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for target, n := range descriptors() {
			if n > before[target] {
				fmt.Fprintf(os.Stderr, "testdev: %d descriptors left open: %s\n", n-before[target], target)
				code = max(code, 1)
			}
		}
		os.Exit(code)
	}))
}

// descriptors counts the open ones by what they are. What the runtime opens once
// and keeps, its poller, does not count. Without /proc it counts none.
func descriptors() map[string]int {
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return nil
	}
	open := map[string]int{}
	for _, l := range links {
		target, err := os.Readlink(l)
		if err != nil || strings.HasPrefix(target, "anon_inode:[event") {
			continue // gone already, such as the one that listed them
		}
		open[target]++
	}
	return open
}
