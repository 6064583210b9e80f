// SPDX-License-Identifier: Apache-2.0

// Package config turns YAML and the environment into a validated Config. It is
// the only importer of viper.
//
// Main types: Config (the struct is the manual: its comments say what each key
// means), Size and Mode (values with units), Error (every fault of a file at
// once, each by its YAML path).
//
// The way of a file: the YAML nodes are walked before viper sees them, because
// viper lower-cases keys (so that two keys which differ in case overwrite each
// other) and knows nothing of lines. The walk refuses unknown and repeated keys
// and every value of the wrong kind or unit, and remembers the line of each
// path. Then come the defaults, the file and the environment, merged by viper,
// and Validate. Its faults, those of any Check of the caller and those of the walk are
// reported together; what could not be read has its default, which is not judged. Reload says what of a later file a running daemon can apply.
//
// Concurrency: a Config is plain data. Build it on one goroutine; afterwards
// any number may read it.
//
// Errors: Load and Validate return *Error for anything that is wrong with a
// setting, and a wrapped file system error when the file cannot be read.
package config
