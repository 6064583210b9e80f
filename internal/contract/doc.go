// SPDX-License-Identifier: Apache-2.0

// Package contract holds exchanges of HTTP against the contract of package api,
// its OpenAPI document: for tests, of package server and of the whole daemon (the
// scripts in testdata, which this package's own tests run).
//
// Main types: Document, the contract, which judges; Exchange, a request and its
// answer; Transport, which hands every exchange of an http.Client to a judge;
// Coverage, which remembers what of the contract was seen.
//
// An answer must be described: its status, its headers, the media type and the
// shape of its body down to the lines of frames and events, and the listener that
// gave it. A request is judged by what became of it: what was done must have been
// described as allowed, and what was refused for a field or parameter must not
// have been.
//
// # Concurrency
//
// A Document and a Coverage are safe for concurrent use; a Transport is one where
// the transport under it is.
//
// # Errors
//
// Check returns every fault it finds, joined.
package contract
