// SPDX-License-Identifier: Apache-2.0

// Package client talks to a rawblockd daemon over its unix socket or over TCP,
// with TLS and a bearer token where it asks for them.
//
// Main types: Client (one daemon, one namespace), Item (what Store sends),
// Loaded (what Load yields), Found (what a compact lookup answers), Events (a
// stream of what is stored and removed), Error (a request that the daemon
// refused).
//
// Payloads are streamed both ways: Store pulls them from an iterator while it
// sends, and Load yields them while they arrive, so neither holds a batch in
// memory. Nothing is retried on its own.
//
// Concurrency: a Client may be used by any number of goroutines; they share its
// idle connections. A body, a stream of events, and what an iterator yields,
// belongs to the goroutine that asked for it.
//
// Errors: a request that failed as a whole is an *Error made from the daemon's
// problem+json; use StatusOf for single objects. A key of a batch that failed
// is no error: its result says so. ErrTTL is a negative time to live, which is
// never sent. Anything else is the transport's error,
// wrapped with the address.
package client
