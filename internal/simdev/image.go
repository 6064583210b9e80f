// SPDX-License-Identifier: Apache-2.0

package simdev

// chunkSize is how much of an image is allocated at a time. What was never
// written costs nothing, so a test can have a large device.
const chunkSize = 256 << 10

// image is the contents of a device. It has no lock of its own.
type image struct {
	chunks [][]byte // nil: zeros
}

func newImage(size int64) image {
	return image{chunks: make([][]byte, (size+chunkSize-1)/chunkSize)}
}

func (m image) read(vec [][]byte, off int64) {
	for _, part := range vec {
		for len(part) > 0 {
			at := off % chunkSize
			n := min(int64(len(part)), chunkSize-at)
			if chunk := m.chunks[off/chunkSize]; chunk != nil {
				copy(part[:n], chunk[at:])
			} else {
				clear(part[:n])
			}
			part, off = part[n:], off+n
		}
	}
}

func (m image) write(w extent) {
	for data, off := w.data, w.off; len(data) > 0; {
		chunk := &m.chunks[off/chunkSize]
		if *chunk == nil {
			*chunk = make([]byte, chunkSize)
		}
		n := copy((*chunk)[off%chunkSize:], data)
		data, off = data[n:], off+int64(n)
	}
}

func (m image) clone() image {
	c := image{chunks: make([][]byte, len(m.chunks))}
	for i, chunk := range m.chunks {
		if chunk != nil {
			c.chunks[i] = append([]byte(nil), chunk...)
		}
	}
	return c
}

// extent is bytes and where they go.
type extent struct {
	off  int64
	data []byte
}

func (e extent) end() int64 { return e.off + int64(len(e.data)) }

// without returns the up to two parts of an extent outside a range.
func (e extent) without(r span) []extent {
	if e.end() <= r.off || r.off+r.len <= e.off {
		return []extent{e}
	}
	var rest []extent
	if e.off < r.off {
		rest = append(rest, extent{e.off, e.data[:r.off-e.off]})
	}
	if end := r.off + r.len; end < e.end() {
		rest = append(rest, extent{end, e.data[end-e.off:]})
	}
	return rest
}

// clip returns the first n bytes of a vector.
func clip(vec [][]byte, n int) [][]byte {
	var part [][]byte
	for _, v := range vec {
		v = v[:min(n, len(v))]
		n -= len(v)
		part = append(part, v)
	}
	return part
}
