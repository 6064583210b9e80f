// SPDX-License-Identifier: Apache-2.0

// Package scripts tests the contract on the real daemon: every file of testdata is
// a script that starts the binary on a slab of its own, sends requests and says
// what must come back. It has no code of its own.
//
// Every exchange is held against the OpenAPI document, and at the end all scripts
// together must have shown everything that the document has: each status of each
// operation, each problem code, each word for a key. What cannot be shown is listed
// in coverage_test.go, with the reason.
//
// The commands of the scripts, beside testscript's own:
//
//	daemon start [-listening] [-env NAME=VALUE]...   run the daemon over config.yaml
//	daemon stop | kill | restart | hangup            SIGTERM, SIGKILL, stop and start, SIGHUP
//	daemon log PATTERN                               wait until the log has it
//	http [FLAG]... METHOD TARGET                     send a request, print its answer
//	collect NAME | release NAME                      end a request of http -bg; let its body go on
//	shows NAME PATTERN                               wait until its answer has it, though it goes on
//	raw [-to LISTENER] TEXT [-end]                   send bytes, print the answer
//	want STATUS [CODE [FIELD]]                       of the last answer
//	json PATH VALUE | json PATH -> NAME              look into the last answer; keep a part of it
//	header NAME -> VARIABLE                          keep a header of the last answer
//	sweep [FLAG]... STATUS CODE [EXCEPT]...          send every request of requests whose
//	                                                 operation has STATUS, and want it of each
//	foreign                                          send every request with each parameter and
//	                                                 field of the others; want it refused
//	flip FILE TEXT                                   damage TEXT where it stands in FILE
//	reads FILE watch | hold | deny | allow           what becomes of reads of FILE (fanotify; root)
//	loop NAME FILE                                   make a block device of FILE (root)
//	filesystem DIR SIZE                              mount a file system on DIR (root)
//	freeze DIR | thaw DIR | shutdown DIR             let its changes wait, go on, fail
//
// Concurrency: scripts run in parallel, each with its own daemon.
//
// Errors: a fault fails the script that met it and names the exchange.
package scripts
