// SPDX-License-Identifier: Apache-2.0

// Package server answers HTTP over a store: the data routes of package api on
// a unix socket and on TCP, the admin routes (health, metrics, status, profiles) on
// a listener of their own, and what stock LMCache asks for on another.
//
// Main types: Server, made by New and given its *store.Store later by SetStore,
// so that it listens, and says how far recovery is, before there is anything to
// serve; exchange, one request and its answer.
//
// Every request goes the same way: path, Host and Origin are checked before the
// router sees it (nothing is ever redirected, and no path means two keys), the
// router matches the path as it was sent, segment by segment, a handler answers
// or returns an error, and finish turns that error into problem+json in one
// place; what net/http and profiles refuse by themselves is translated. Once a response has begun an
// error can only end the connection, without the end of the body, so that a
// client never takes a part for the whole.
//
// Before the router a request is also given its rights (access): by its bearer
// token over TCP (all there are where no tokens are set), by the mode of the unix
// socket there, and by the client's address on the lease listener. What a sender may not see is answered exactly as what
// does not exist; handlers ask reach, sees and administers before the store.
//
// Payloads go from the connection into the store's buffers and back in pieces
// of up to 1 MiB; nothing is copied in between. A client that sends or takes a
// piece too slowly is cut off, and that is logged, because it holds memory of the
// stream budget.
//
// A stream of events lasts as long as its client likes and has no deadline. A stop
// ends all of them first (streams.go): nothing waits for a client that listens.
//
// What somebody may have to answer for (clears, forced removes, changes of
// namespaces, slabs drained, resumed and scrubbed) leaves a line in the log with
// audit=true (audit.go).
//
// Three things are scarce (scarce.go): data requests executing at once
// (limits.requests) and the memory of JSON and text bodies (limits.json_bytes),
// beyond which a request is refused with 429, and the stream budget, for which it
// waits in order as long as bytes move in what others hold. A client that stands
// still with any of these while others want it is cut off within seconds (hold.go).
// Connections are kept within what descriptors leave room for (conns.go).
//
// # Concurrency
//
// A Server is safe for concurrent use. Its tokens and its certificate are behind
// atomic pointers; a request takes the tokens once, a handshake the certificate. Handlers start no goroutines; whoever
// runs the http.Server waits for them (Shutdown). An exchange belongs to its
// request's goroutine; what others read of it is behind its own locks.
//
// # Lock ordering
//
// about.mu, requestTable.mu, connTable.mu, streams.mu and hold.mu are never held
// together. Under hold.mu the store may be asked whether memory is wanted, which
// takes the arena's lock.
//
// # Errors
//
// Handlers return *api.Problem, errors of store, or errors of the connection;
// asProblem maps them. Whatever it does not know is logged and answered 500.
package server
