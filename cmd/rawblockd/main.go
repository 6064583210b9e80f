// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := untilSignal(context.Background(), os.Exit)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. The
// second one does not wait for anything: exit is called with 1.
func untilSignal(parent context.Context, exit func(code int)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 2)
	signal.Notify(got, unix.SIGINT, unix.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sig, ok := <-got
		if !ok {
			return
		}
		cancel(fmt.Errorf("received %v", sig))
		if _, ok := <-got; ok {
			exit(exitFailed)
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		close(got)
		<-done
		cancel(nil)
	}
}

// onHangup calls do for every SIGHUP, which would otherwise end the process,
// until stop is called.
func onHangup(do func()) (stop func()) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, unix.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range got {
			do()
		}
	}()
	return func() {
		signal.Stop(got)
		close(got)
		<-done
	}
}
