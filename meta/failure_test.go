// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// fault fails changes that match, from the n-th on, once or for ever.
type fault struct {
	match func(errorfs.Op) bool
	n     int64
	once  bool
	err   error

	armed atomic.Bool
	seen  atomic.Int64
	hits  atomic.Int64
}

func (f *fault) String() string { return "fault" }

func (f *fault) MaybeError(op errorfs.Op) error {
	if !f.armed.Load() || !isChange(op) || !f.match(op) {
		return nil
	}
	n := f.seen.Add(1)
	if n < f.n || f.once && n > f.n {
		return nil
	}
	f.hits.Add(1)
	return fmt.Errorf("injected into %s: %w", op.Path, f.err)
}

func isKind(kinds ...errorfs.OpKind) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool {
		for _, k := range kinds {
			if op.Kind == k {
				return true
			}
		}
		return false
	}
}

func both(a, b func(errorfs.Op) bool) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool { return a(op) && b(op) }
}

func inFile(suffixes ...string) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool { return isFile(op, suffixes...) }
}

// faults are C35's, and the ones of which Pebble v2.1 dies: a log that fails in
// a rotation, and a directory whose sync fails.
func faults() map[string]func(errorfs.Op) bool {
	anySync := isKind(errorfs.OpFileSync, errorfs.OpFileSyncData)
	return map[string]func(errorfs.Op) bool{
		"wal write":      both(isKind(errorfs.OpFileWrite), inFile(".log")),
		"wal sync":       both(anySync, inFile(".log")),
		"wal create":     both(isKind(errorfs.OpCreate, errorfs.OpRename), inFile(".log")),
		"manifest write": both(isKind(errorfs.OpFileWrite), inFile("MANIFEST-")),
		"manifest sync":  both(anySync, inFile("MANIFEST-")),
		"flush create":   both(isKind(errorfs.OpCreate), inFile(".sst")),
		"flush write":    both(isKind(errorfs.OpFileWrite), inFile(".sst")),
		"flush sync":     both(anySync, inFile(".sst")),
		"directory sync": both(anySync, inFile("pebble")),
	}
}

func eachFault(t *testing.T, test func(t *testing.T, f *fault)) {
	for name, match := range faults() {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for _, n := range []int64{1, 3} {
				for _, once := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%d/%d/once=%v", name, int(errno), n, once), func(t *testing.T) {
						t.Parallel()
						test(t, &fault{match: match, err: errno, n: n, once: once})
					})
				}
			}
		}
	}
}

// TestFaultsLoseNothing is C35 and H34: whatever write fails, no Commit that
// said nil is lost, none says nil afterwards, and Close ends in good order.
func TestFaultsLoseNothing(t *testing.T) {
	eachFault(t, func(t *testing.T, f *fault) {
		mem := vfs.NewCrashableMem()
		told := make(chan string, 2)
		o := smallOptions(errorfs.Wrap(mem, f))
		o.Fatal = func(reason string) { told <- reason }
		db, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		f.armed.Store(true)
		h := &history{steps: 600}
		wantFailed(t, "history", h.run(db))
		if f.hits.Load() == 0 {
			t.Fatal("the fault was never met")
		}
		refusesEverything(t, db)
		// Calls fail from the moment metaFailed is set; the goroutine that set it,
		// perhaps one of Pebble's, tells Fatal right after.
		<-told
		atFailure := clone(mem, 0, 0)
		wantFailed(t, "Close", db.Close())
		if len(told) != 0 {
			t.Errorf("Fatal was called again: %s", <-told)
		}
		h.reopen(t, atFailure, h.acked.Load(), h.issued.Load())
		for _, percent := range []int{0, 50, 100} {
			h.reopen(t, clone(mem, percent, uint64(f.n)), h.acked.Load(), h.issued.Load())
		}
	})
}

// refusesEverything: once metaFailed is set each call answers at once.
func refusesEverything(t *testing.T, db *DB) {
	t.Helper()
	reason, failed := db.Failed()
	if !failed || reason == "" {
		t.Errorf("Failed() = %q, %v", reason, failed)
	}
	wantFailed(t, "Commit", put(db, inc(1), 1, stepRow(1), true))
	wantFailed(t, "Commit without sync", put(db, inc(1), 1, stepRow(1), false))
	wantFailed(t, "Commit of nothing", db.Commit(db.NewBatch(), true))
	wantFailed(t, "Sync", db.Sync())
	_, err := db.NextGenerations(1)
	wantFailed(t, "NextGenerations", err)
	_, _, err = db.Get(inc(1), 1)
	wantFailed(t, "Get", err)
	_, _, err = db.Mount(inc(1))
	wantFailed(t, "Mount", err)
	wantFailed(t, "Scan", db.Scan(inc(1), 0, 0, func(uint32, Row, error) bool { return true }))
}

// TestFaultsInAnyChange fails the k-th change of a run from its first open, for
// every k that is not one of the many plain log writes, and for a sample of those.
func TestFaultsInAnyChange(t *testing.T) {
	const steps = 160
	rec := &recorder{}
	db := mustOpen(t, errorfs.Wrap(vfs.NewCrashableMem(), rec))
	if err := (&history{steps: steps}).run(db); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	logs := 0
	for k, op := range rec.list() {
		if isFile(op, ".log") && !isKind(errorfs.OpCreate, errorfs.OpRename)(op) {
			if logs++; logs%40 != 0 {
				continue
			}
		}
		for _, once := range []bool{true, false} {
			anyFault(t, steps, int64(k+1), once)
		}
	}
}

// recorder lists the changes of a run.
type recorder struct {
	mu  sync.Mutex
	ops []errorfs.Op // +checklocks:mu
}

func (r *recorder) String() string { return "recorder" }

func (r *recorder) MaybeError(op errorfs.Op) error {
	if isChange(op) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ops = append(r.ops, op)
	}
	return nil
}

func (r *recorder) list() []errorfs.Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ops
}

func anyFault(t *testing.T, steps int, k int64, once bool) {
	t.Helper()
	f := &fault{match: func(errorfs.Op) bool { return true }, n: k, once: once, err: syscall.EIO}
	f.armed.Store(true)
	mem := vfs.NewCrashableMem()
	h := &history{steps: steps}
	db, err := Open(smallOptions(errorfs.Wrap(mem, f)))
	if err == nil {
		runErr := h.run(db)
		_, failed := db.Failed()
		if failed && !errors.Is(runErr, ErrFailed) && h.acked.Load() < int64(steps-syncEach) {
			t.Errorf("fault %d: history returned %v though metaFailed is set", k, runErr)
		}
		_ = db.Close() // nil or ErrFailed, depending on where the fault fell
	}
	for _, percent := range []int{0, 50} {
		h.reopen(t, clone(mem, percent, uint64(k)), h.acked.Load(), h.issued.Load())
	}
}

// TestFatalfAnywhere: Pebble's last word sets metaFailed whoever speaks it,
// also for causes that are no failed write.
func TestFatalfAnywhere(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, mem)
	if err := put(db, inc(1), 1, stepRow(1), true); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pebbleLog{fail: db.fail, log: db.fail.log}.Fatalf("compaction: %s", "impossible")
	}()
	<-done
	if reason, _ := db.Failed(); reason != "compaction: impossible" {
		t.Errorf("reason %q", reason)
	}
	refusesEverything(t, db)
	wantFailed(t, "Close", db.Close())
	wantFailed(t, "second Close", db.Close())
	db = mustOpen(t, clone(mem, 0, 0))
	defer mustClose(t, db)
	if got := rows(t, db, inc(1)); len(got) != 1 {
		t.Errorf("%d rows survived, want 1", len(got))
	}
}

// TestNothingReachesTheDiskAfterFailure: the image at the failure and the one
// after a great deal of dreaming are the same, and no compaction runs in circles.
func TestNothingReachesTheDiskAfterFailure(t *testing.T) {
	var after, dreamt atomic.Int64
	var failed atomic.Bool
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !failed.Load() {
			return nil
		}
		if isChange(op) {
			after.Add(1)
		}
		if _, err := mem.Stat(op.Path); err != nil && op.Kind == errorfs.OpOpen && isFile(op, ".sst") {
			dreamt.Add(1)
		}
		return nil
	}))
	db := mustOpen(t, fs)
	if err := (&history{steps: 100}).run(db); err != nil {
		t.Fatal(err)
	}
	db.fail.set("test")
	failed.Store(true)
	// Past Commit's gate, as one that was already inside.
	for i := range 2000 {
		r := stepRow(i)
		b := db.NewBatch()
		b.Set(inc(1), uint32(i), &r)
		wantFailed(t, "commit in flight", db.applied(func() error { return b.pb.Commit(nil) }))
	}
	wantFailed(t, "Close", db.Close())
	if n := after.Load(); n > 0 {
		t.Errorf("%d changes reached the disk after the failure", n)
	}
	if n := dreamt.Load(); n > 0 {
		t.Errorf("compactions asked %d times for tables that were only dreamt", n)
	}
}

// TestWriterLeavesAtFailure: a commit that waits for a log write which then
// fails, and the ones queued behind it, come back.
func TestWriterLeavesAtFailure(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	fs := errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && isFile(op, ".log") && op.Kind == errorfs.OpFileWrite {
			if armed.CompareAndSwap(true, false) {
				close(entered)
			}
			<-release
			return syscall.EIO
		}
		return nil
	}))
	db := mustOpen(t, fs)
	armed.Store(true)
	errs := make(chan error)
	for i := range 16 {
		go func() { errs <- put(db, inc(1), uint32(i), stepRow(i), true) }()
	}
	<-entered
	close(release)
	for range 16 {
		if err := <-errs; !errors.Is(err, ErrFailed) {
			t.Errorf("commit: got %v, want ErrFailed", err)
		}
	}
	wantFailed(t, "Close", db.Close())
}

// TestFailureIsSaidOnce: the reason names the file once, and whoever is told of
// it does the logging.
func TestFailureIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	var broken atomic.Bool
	told := make(chan string, 2)
	o := smallOptions(errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpFileWrite {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	})))
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Fatal = func(reason string) { told <- reason }
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	wantFailed(t, "Commit", put(db, inc(1), 1, stepRow(1), true))
	reason := <-told
	if strings.Count(reason, "write") != 1 || strings.Count(reason, testPath) != 1 || !strings.HasSuffix(reason, ": no space left on device") {
		t.Errorf("reason: got %q, want one that names write and file once", reason)
	}
	wantFailed(t, "Close", db.Close())
	if len(told) != 0 {
		t.Errorf("told again: %s", <-told)
	}
	if strings.Contains(log.String(), reason) {
		t.Errorf("logged as well: %s", log.String())
	}
}

// slowDisk does not answer how much room it has until it may.
type slowDisk struct {
	vfs.FS
	asked, answer chan struct{}
}

func (d *slowDisk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if d.asked != nil {
		d.asked <- struct{}{}
		<-d.answer
	}
	return d.FS.GetDiskUsage(path)
}

// TestBallastReportDoesNotWait: what reports the ballast does not wait for a disk
// that hangs while it is made.
func TestBallastReportDoesNotWait(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1})
	disk := &slowDisk{FS: mem}
	db, err := Open(Options{Path: "m", FS: disk, MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	disk.asked, disk.answer = make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() { done <- db.RestoreBallast() }()
	<-disk.asked
	if held, wanted := db.Ballast(); held != 0 || wanted != 1<<18 {
		t.Errorf("got %d of %d bytes", held, wanted)
	}
	close(disk.answer)
	if err := <-done; err == nil {
		t.Error("a ballast was made on a disk without room")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
