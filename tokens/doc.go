// SPDX-License-Identifier: Apache-2.0

// Package tokens reads the file of bearer tokens, and tells which of them a
// request presented.
//
// Main types: Set (the tokens of one file), Token (what one of them may do),
// Error (every fault of a file at once, each by its place).
//
// The file is a YAML list:
//
//   - {name: engine-a, token: "at least 16 bytes", namespaces: [a, b]}
//   - {name: engine-b, sha256: "64 hex digits", namespaces: ["*"], admin: true}
//
// A token is 16 to 4,096 visible ASCII characters, here or as the SHA-256 of it
// (printf %s "$TOKEN" | sha256sum). The name is for the log. namespaces are those
// whose keys it may use; ["*"] are all. admin adds the administration: reports,
// metrics, profiles, and changes of namespaces and slabs. Others on the host must
// have no rights on the file at all, and nothing of what it says beside names
// is ever part of an error: one that was mistyped is likely a token.
//
// Only hashes are kept. What a request presents is hashed, and compared in
// constant time with every one of them whatever the outcome, so that the time of
// an answer says nothing about the tokens there are.
//
// Concurrency: a Set is immutable; any number of goroutines may use it.
//
// Errors: Load and Parse return *Error.
package tokens
