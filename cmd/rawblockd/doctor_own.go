// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// ownDaemon is the daemon that serves the configuration already: what it holds
// is in nobody's way.
type ownDaemon struct {
	who      string // its process, as in "pid 4711"
	instance string
	health   map[string]string // by incarnation
	slabs    []meta.SlabRecord // those that it knows
}

// String names its process.
func (o *ownDaemon) String() string { return o.who }

// serves says how the daemon finds the slab with this label, if it has it.
func (o *ownDaemon) serves(l slab.Label) (health string, ok bool) {
	if o == nil {
		return "", false
	}
	health, ok = o.health[slab.UUID(l.Incarnation)]
	return health, ok
}

// askWithin bounds the questions to a daemon that may be stuck.
const askWithin = 3 * time.Second

// findOwn asks who answers on listen.unix. Where that is off nobody can be told
// from a stranger.
func (d *doctor) findOwn(ctx context.Context) {
	path := d.cfg.Listen.Unix
	if path == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return
	}
	who := peer(conn)
	_ = conn.Close() // nothing was said
	cl, err := client.New("unix:"+path, "")
	if err != nil {
		return
	}
	defer cl.Close()
	st, err := cl.Status(ctx)
	if err != nil {
		return
	}
	d.own = &ownDaemon{who: who, instance: st.Instance, health: map[string]string{}}
	for _, s := range st.Slabs {
		d.own.health[s.Incarnation] = healthText(s)
		if inc, err := hex.DecodeString(strings.ReplaceAll(s.Incarnation, "-", "")); err == nil && len(inc) == len(meta.Incarnation{}) {
			d.own.slabs = append(d.own.slabs, meta.SlabRecord{Inc: meta.Incarnation(inc), Name: s.Name, SlotSize: s.SlotSize})
		}
	}
}

func healthText(s api.SlabStatus) string {
	if s.Reason != "" {
		return fmt.Sprintf("%s (%s)", s.Health, s.Reason)
	}
	return s.Health
}
