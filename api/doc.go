// SPDX-License-Identifier: Apache-2.0

// Package api is the wire contract of rawblockd: what the server writes and
// the clients read, and nothing else. It imports no other package of the
// module, so both sides and any tool may import it.
//
// Main types: the request and response structs of the batch operations
// (LookupRequest, LoadRequest, …), Status (the word a key is answered with,
// and its HTTP code), Problem (RFC 9457, the answer to a request that failed as
// a whole), Frame with FrameReader and FrameWriter (payloads of many keys in
// one body), Bitmap (the answer to a compact lookup), Namespace, Event,
// Explanation, Info and StatusReport. OpenAPI returns the whole contract as a
// document that programs read; openapi.yaml is its source.
//
// # Keys
//
// A key is 1 to 1,024 bytes of valid UTF-8 without control characters, compared
// bytewise. encoding/json turns every invalid sequence into U+FFFD, so that two
// different keys would become one; the decoders here look at the raw bytes
// instead, and hand on a key that is not Unicode (bytes that are no UTF-8, or
// the escape of a lone surrogate) as the empty string, which no valid key is:
// it is answered invalid_key and can never meet another key. The encoders do
// the same with such a key of the client.
//
// The list of keys of a compact lookup is text, a key a line. It does the same
// with a line that is no key, so that every line keeps its place.
//
// # Strictness
//
// Request bodies are JSON objects read by a decoder of their own: names are
// compared exactly (encoding/json ignores case), a repeated or unknown name is
// refused and named, and a value of the wrong kind says which field it is in.
//
// # Paths
//
// A key or a namespace is one segment of a path, with its slashes as %2F and
// decoded once, so that every key but "." and ".." has a path: proxies and
// clients resolve those two however they are escaped. They are reached through
// batches.
//
// # Batches
//
// One key's fault is that key's alone. In a store a frame whose key is invalid
// (invalid_key), that is too long (too_large) or that has no bytes
// (size_mismatch: a payload has at least one byte) is answered by itself, with an
// error sentence, and the other keys are stored. Only frames that cannot be told
// apart any more fail the request, with malformed_frame, and store nothing.
//
// # Concurrency
//
// Values are plain data. A FrameReader or FrameWriter belongs to one goroutine.
//
// # Errors
//
// The Decode functions and the path and key checks return *Problem. Frame
// errors are *FrameError, which wraps ErrFrame or, where the stream ended too
// early, io.ErrUnexpectedEOF.
package api
