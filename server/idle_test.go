// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

// idleAddr makes the test binary a program that opens connections and leaves them
// idle: both ends in one process would need twice the descriptors.
const idleAddr, idleCount = "TEST_IDLE_ADDR", "TEST_IDLE_COUNT"

func TestMain(m *testing.M) {
	if addr := os.Getenv(idleAddr); addr != "" {
		if err := idle(addr); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testdev.Main(m)
}

// idle opens connections, of which every other asks for something, says so, and
// keeps them until its input ends.
func idle(addr string) error {
	n, err := strconv.Atoi(os.Getenv(idleCount))
	if err != nil {
		return err
	}
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.EMFILE) {
			return fmt.Errorf("skip: only %d descriptors can be had", i)
		}
		if err != nil {
			return err
		}
		conns[i] = c
		if i%2 == 0 {
			continue
		}
		if _, err := io.WriteString(c, "GET /v1/kv/default/nothing HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 2000)+"\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusNotFound {
			return fmt.Errorf("got %d, %w", resp.StatusCode, err)
		}
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	for _, c := range conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Ten thousand idle connections, half of which have had an answer, cost so much and
// no more, and harm nobody.
func TestTenThousandIdleConnections(t *testing.T) {
	const n = 10_000
	const name = "RLIMIT_NOFILE"
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < n+500 {
		raised := unix.Rlimit{Cur: n + 500, Max: max(limit.Max, n+500)}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
			t.Skipf("%s is %d and cannot be %d: %v", name, limit.Cur, raised.Cur, err)
		}
		t.Cleanup(func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) })
	}
	r := newRig(t)
	client, addr := r.tcp()
	touch(t, r)
	mustStore(t, client, 1<<20, "a", "b")
	before := inUse()
	self, err := os.Executable()
	must(t, err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), idleAddr+"="+addr, idleCount+"="+strconv.Itoa(n))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	t.Cleanup(func() {
		_ = in.Close() // ends the child
		if err := child.Wait(); err != nil && !t.Skipped() {
			t.Error(err)
		}
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	if strings.HasPrefix(said, "skip: ") {
		t.Skipf("%s of the other end: %s", name, said)
	}
	if said != "ready\n" || err != nil {
		t.Fatalf("the other end said %q, %v", said, err)
	}
	// A load beside them, on a connection that is accepted after them.
	client.CloseIdleConnections()
	fs, _ := load(t, client, "a", "b")
	if len(fs) != 2 || fs[0].Status != api.StatusOK || fs[1].Status != api.StatusOK {
		t.Errorf("a load beside them: %+v", fs)
	}
	each := (inUse() - before) / n
	t.Logf("%d bytes of heap and stack for an idle connection", each)
	if each > 32<<10 {
		t.Errorf("an idle connection costs %d bytes, want at most 32 KiB", each)
	}
}
