// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/rawblockd/rawblockd/bench"
	"github.com/rawblockd/rawblockd/ioengine"
)

// benchEngines is the engines that can be measured. Each has the depth alone as its
// bound.
func benchEngines() map[string]bench.MakeEngine {
	return map[string]bench.MakeEngine{
		"pread": func(dev *ioengine.File, depth int, _ [][]byte) (ioengine.Engine, string, error) {
			return ioengine.NewPread(dev, ioengine.PreadOptions{Workers: depth}), "", nil
		},
		"uring": func(dev *ioengine.File, depth int, memory [][]byte) (ioengine.Engine, string, error) {
			e, err := ioengine.NewUring(dev, ioengine.UringOptions{Depth: depth, Memory: memory})
			if err != nil {
				return nil, "", err
			}
			if err := e.Registered(); err != nil {
				return e, fmt.Sprintf("memory is not registered: %v", err), nil
			}
			return e, "", nil
		},
		"uring-unregistered": func(dev *ioengine.File, depth int, _ [][]byte) (ioengine.Engine, string, error) {
			e, err := ioengine.NewUring(dev, ioengine.UringOptions{Depth: depth})
			if err != nil {
				return nil, "", err // not e: it would be no nil
			}
			return e, "", nil
		},
	}
}

func benchNames() []string {
	var names []string
	for name := range benchEngines() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
