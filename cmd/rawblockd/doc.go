// SPDX-License-Identifier: Apache-2.0

// Command rawblockd is the daemon and its client in one binary.
//
// main calls run, which builds the command tree of one cli; every verb has a
// file of its own. The daemon behind serve is type daemon: listen.go and
// socket.go open its listeners, open.go what lies under the store, secrets.go
// the files of tokens and certificates; reload.go applies what SIGHUP finds; stop.go
// lets all of it go. doctor looks at the host, a file for each of its concerns, and
// writes nothing. The client verbs have their flags from target.go; complete.go
// asks the same daemon for names. top takes samples (top.go), compares them
// (top_report.go) and shows them in place (screen.go). demo runs the main job
// against a child process of this same binary.
//
// # Concurrency
//
// run may be called by several goroutines with different cli values, as tests
// do. A verb owns what it starts and has waited for it when it returns, but for the
// read of a terminal on which a question was not answered before Ctrl-C.
//
// # Errors
//
// A verb returns an error; run prints it as one line, "rawblockd: what, on
// what, why, what to do" (the faults of a configuration as one line each), and
// turns it into the exit code: 1 failed, 2 wrong usage or configuration.
package main
