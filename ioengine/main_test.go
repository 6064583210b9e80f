// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"testing"

	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestMain(m *testing.M) { testdev.Main(m) }
