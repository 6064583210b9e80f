// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/client"
)

// beLeaseholder makes the test binary a client that takes a lease and keeps its
// connection until it is killed.
const beLeaseholder = "TEST_BINARY_HOLDS_A_LEASE"

const leaseTTL = 1500 * time.Millisecond

func holdLease(addr string) int {
	c, err := client.New(addr, "default")
	if err == nil {
		var got client.Found
		if got, err = holdKeys(c); err == nil {
			fmt.Println("lease", got.Lease)
			_, err = io.Copy(io.Discard, os.Stdin)
		}
	}
	fmt.Println(err)
	return 1
}

func holdKeys(c *client.Client) (client.Found, error) {
	return c.LookupBits(context.Background(), []string{"a", "b"}, client.LookupOptions{Lease: &client.Lease{TTL: leaseTTL, Owner: "killed"}})
}

// C10: a client takes a lease with its lookup and is killed. What it pinned is free
// when the lease's time is over, and not before.
func TestClientKilledWithALease(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	c, err := client.New(addr, "default")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, k := range []string{"a", "b"} {
		if _, err := c.Put(t.Context(), k, strings.NewReader(k), 1, client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(self)
	holder.Env = append(os.Environ(), beLeaseholder+"="+addr)
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(said, "lease ") || len(said) < 32 {
		t.Fatalf("the client said %q, %v", said, err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // killed, which is an error

	st, err := c.Status(t.Context())
	if err != nil || st.Pins != 2 || st.Leases != 1 {
		t.Errorf("just after: %d pins, %d leases, %v", st.Pins, st.Leases, err)
	}
	_, err = c.Delete(t.Context(), "a", false)
	var e *client.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusLocked {
		t.Errorf("remove of a pinned key: %v", err)
	}
	until(t, "the pins are gone", func() bool {
		st, err := c.Status(t.Context())
		return err == nil && st.Pins == 0 && st.Leases == 0 && st.PinnedBytes == 0
	})
	if took := time.Since(began); took < leaseTTL {
		t.Errorf("the lease of %v ended after %v", leaseTTL, took)
	}
	for _, k := range []string{"a", "b"} {
		if _, err := c.Delete(t.Context(), k, false); err != nil {
			t.Errorf("remove of %q after the lease: %v", k, err)
		}
	}
}
