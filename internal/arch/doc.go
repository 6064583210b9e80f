// SPDX-License-Identifier: Apache-2.0

// Package arch holds the tests of the module's shape: who may import whom, what
// every package must say about itself, and the size limits of files and
// interfaces. It has no code of its own.
//
// Concurrency: none.
//
// Errors: none; a broken rule fails a test that names the file and the rule.
package arch
