// SPDX-License-Identifier: Apache-2.0

// Package testcert makes certificate authorities and certificates for tests.
//
// Concurrency: everything may be used by parallel tests; an Authority is
// immutable.
//
// Errors: whatever fails ends the test.
package testcert
