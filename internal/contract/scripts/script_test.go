// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rawblockd/rawblockd/internal/contract"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

var binary = flag.String("binary", "", "the daemon; built when empty")

func TestMain(m *testing.M) {
	// Scripts wait most of the time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testdev.Main(m)
}

// TestContract runs all scripts and then asks what they did not show.
func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("the daemon is not built with this test's race detector; the whole run has it")
	}
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	shared := &suite{doc: doc, coverage: contract.NewCoverage(doc), binary: build(t)}
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata", Setup: shared.setup, Condition: shared.condition, RequireUniqueNames: true,
			Cmds: map[string]func(*testscript.TestScript, bool, []string){
				"daemon": cmdDaemon, "http": cmdHTTP, "collect": cmdCollect, "release": cmdRelease, "raw": cmdRaw,
				"want": cmdWant, "json": cmdJSON, "header": cmdHeader, "sweep": cmdSweep, "foreign": cmdForeign, "shows": cmdShows, "flip": cmdFlip, "reads": cmdReads,
				"filesystem": cmdFilesystem, "loop": cmdLoop, "freeze": cmdFreeze, "thaw": cmdThaw, "shutdown": cmdShutdown,
			},
		})
	})
	t.Run("coverage", shared.judge)
}

// build makes the daemon, unless one is given.
func build(t *testing.T) string {
	t.Helper()
	if *binary != "" {
		return *binary
	}
	made := filepath.Join(t.TempDir(), "rawblockd")
	out, err := exec.Command("go", "build", "-o", made, "github.com/rawblockd/rawblockd/cmd/rawblockd").CombinedOutput()
	if err != nil {
		t.Fatalf("build the daemon: %v\n%s", err, out)
	}
	return made
}

// suite is what all scripts share.
type suite struct {
	doc      *contract.Document
	coverage *contract.Coverage
	binary   string
}

// script is what one script has.
type script struct {
	*suite
	dir     string // of the script's files
	sockets string // a folder whose path leaves room for a socket
	daemon  *daemon
	watches map[string]*watch
	last    contract.Exchange
	pending map[string]*pending
	thaws   []func() // let what hangs go on
	end     []func()
}

type scriptKey struct{}

func (s *suite) setup(env *testscript.Env) error {
	sockets, err := os.MkdirTemp("", "rb")
	if err != nil {
		return err
	}
	sc := &script{suite: s, dir: env.WorkDir, sockets: sockets, watches: map[string]*watch{}, pending: map[string]*pending{}}
	env.Values[scriptKey{}] = sc
	env.Setenv("RAWBLOCKD", s.binary)
	for name, value := range map[string]string{
		"SLAB_SIZE": "64MiB", "NS": "default", "KEY": "k", "LEASE_ID": "0123456789abcdef0123456789abcdef", "SLAB": "fast0",
	} {
		env.Setenv(name, value)
	}
	env.Setenv("LONGKEY", strings.Repeat("k", 1024))
	env.Setenv("LONG", strings.Repeat("x", 64<<10))
	env.Setenv("SOCK", filepath.Join(sockets, "s"))
	env.Defer(func() {
		sc.finish()
		_ = os.RemoveAll(sockets)
	})
	return nil
}

// finish ends what a script left running, the last first.
func (s *script) finish() {
	for _, w := range s.watches {
		w.close()
	}
	for _, thaw := range s.thaws {
		thaw()
	}
	if s.daemon != nil {
		s.daemon.kill()
	}
	for _, p := range s.pending {
		p.drop()
	}
	for i := len(s.end) - 1; i >= 0; i-- {
		s.end[i]()
	}
}

func of(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// condition knows [faults]: whether devices and file systems can be made to fail,
// which takes root and some of the kernel; and [uring]: whether that gives io_uring.
func (s *suite) condition(name string) (bool, error) {
	switch name {
	case "faults":
		return faults() == "", nil
	case "uring":
		return ioengine.ProbeUring(1) == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// usage ends a script that calls a command wrongly.
func usage(ts *testscript.TestScript, text string) { ts.Fatalf("usage: %s", text) }

// fail ends a script, with the last lines of its daemon's log.
func (s *script) fail(ts *testscript.TestScript, format string, args ...any) {
	if s.daemon != nil {
		lines := strings.Split(strings.TrimSpace(s.daemon.log.String()), "\n")
		ts.Logf("[daemon]\n%s\n", strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	ts.Fatalf(format, args...)
}
