// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"context"
	"fmt"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/store"
)

// load loads keys of one namespace and says what came back. Versions is called
// per key when its bytes are there, so it knows every store that has begun.
func load(n *node, names []keyName, versions func(i int) []version) ([]observation, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = name.key
	}
	l, err := n.store.Load(context.Background(), names[0].ns, keys)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer l.Close()
	out := make([]observation, 0, len(names))
	for item, more := l.Next(); more; item, more = l.Next() {
		i := len(out)
		o := observation{version: -1}
		switch item.Status {
		case store.OK:
			o.status = foundHit
			o.version, o.text = identify(item.Buf, item.Bytes, versions(i))
			item.Buf.Release()
		case store.Missing, store.Expired:
			o.status = foundNothing
		case store.Corrupt:
			o.status = foundCorrupt
		default:
			o.status, o.text = foundError, fmt.Sprintf("%v (%v)", item.Status, item.Err)
		}
		out = append(out, o)
	}
	if len(out) != len(names) {
		return nil, fmt.Errorf("load: %d answers for %d keys", len(out), len(names))
	}
	return out, nil
}

// loadAll loads every key, one batch per namespace.
func loadAll(n *node, names []keyName, versions func(i int) []version) ([]observation, error) {
	out := make([]observation, 0, len(names))
	for from := 0; from < len(names); {
		to := from
		for to < len(names) && names[to].ns == names[from].ns {
			to++
		}
		part, err := load(n, names[from:to], func(i int) []version { return versions(from + i) })
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
		from = to
	}
	return out, nil
}

// identify finds the version whose payload buf holds, or says how it is none.
func identify(buf *ioengine.Buf, length int64, versions []version) (int, string) {
	near, deepest := "bytes of no version of this key", -1
	for v := len(versions) - 1; v >= 0; v-- {
		at, ok := compare(buf.Chunks(), length, versions[v].seed)
		if ok && versions[v].length == length {
			return v, ""
		}
		if ok {
			return -1, fmt.Sprintf("%d bytes of version %d, which has %d", length, v, versions[v].length)
		}
		if at > deepest && at > 0 {
			deepest = at
			near = fmt.Sprintf("version %d up to byte %d of %d, then others", v, at, length)
		}
	}
	return -1, near
}

// compare tells whether chunks hold length bytes of a payload, and if not where
// they differ first.
func compare(chunks [][]byte, length int64, seed uint64) (at int, ok bool) {
	pos := 0
	for _, c := range chunks {
		n := min(len(c), int(length)-pos)
		if at, ok := same(c[:n], seed, pos); !ok {
			return at, false
		}
		pos += n
	}
	return 0, true
}

// fillBuf writes a payload into a buffer.
func fillBuf(buf *ioengine.Buf, v version) {
	pos := 0
	for _, c := range buf.Chunks() {
		n := min(len(c), int(v.length)-pos)
		fill(c[:n], v.seed, pos)
		pos += n
	}
}
