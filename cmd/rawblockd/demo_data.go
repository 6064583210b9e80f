// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"

	"github.com/rawblockd/rawblockd/client"
)

// batch is keys of one length whose bytes follow from the key.
type batch struct {
	name  string
	keys  []string
	bytes int64 // of each
}

func newBatch(name string, keys int, bytes int64) batch {
	b := batch{name: name, bytes: bytes}
	for i := range keys {
		b.keys = append(b.keys, fmt.Sprintf("demo/%s/%02d", name, i))
	}
	return b
}

func (b batch) total() int64 { return int64(len(b.keys)) * b.bytes }

// items yields what to store. sent, if not nil, sees the length of each part
// that is handed out.
func (b batch) items(salt string, sent func(n int)) iter.Seq[client.Item] {
	return func(yield func(client.Item) bool) {
		for _, k := range b.keys {
			r := &countingReader{r: payloadOf(salt, k, b.bytes), sent: sent}
			if !yield(client.Item{Key: k, Bytes: b.bytes, Body: r}) {
				return
			}
		}
	}
}

// payloadOf returns the n bytes that belong to a key: a stream seeded with the
// key and the salt of this run, so that no byte of another key, or of an
// earlier run, can pass.
func payloadOf(salt, key string, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8(sha256.Sum256([]byte(salt+"\x00"+key))), n)
}

type countingReader struct {
	r    io.Reader
	sent func(n int)
}

// Read implements io.Reader.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.sent != nil {
		c.sent(n)
	}
	return n, err
}

var errWrongBytes = errors.New("wrong bytes")

// comparer compares bodies, a MiB at a time.
type comparer struct{ got, want []byte }

func newComparer() *comparer {
	return &comparer{make([]byte, 1<<20), make([]byte, 1<<20)}
}

// same returns nil if body is exactly what belongs to key.
func (c *comparer) same(body io.Reader, salt, key string, n int64) error {
	want := payloadOf(salt, key, n)
	for off := int64(0); ; {
		w, err := io.ReadFull(want, c.want)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if w == 0 {
			break
		}
		g, err := io.ReadFull(body, c.got[:w])
		if err != nil {
			return fmt.Errorf("key %q: at byte %d of %d: %w", key, off+int64(g), n, err)
		}
		if !bytes.Equal(c.got[:w], c.want[:w]) {
			return fmt.Errorf("key %q: %w in the MiB at byte %d", key, errWrongBytes, off)
		}
		off += int64(w)
	}
	if _, err := body.Read(c.got[:1]); !errors.Is(err, io.EOF) {
		return fmt.Errorf("key %q: longer than %d bytes: %w", key, n, errWrongBytes)
	}
	return nil
}
