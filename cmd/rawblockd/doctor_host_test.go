// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// otherHost is a doctor on a host whose /proc and /sys hold these files.
func otherHost(t *testing.T, files map[string]string) *doctor {
	t.Helper()
	dir := t.TempDir()
	c := config.Dev(dir)
	d := newDoctor(c)
	d.proc, d.sys = filepath.Join(dir, "proc"), filepath.Join(dir, "sys")
	d.probeUring = func(int) error { return nil }
	d.rlimit = func(int) (unix.Rlimit, error) {
		return unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// last returns the one thing that was found.
func (d *doctor) last(t *testing.T) finding {
	t.Helper()
	if len(d.found) != 1 {
		t.Fatalf("want one finding, got %+v", d.found)
	}
	return d.found[0]
}

// TestDoctorUring is C18's half that can be seen before the start. What the kernel's
// answer means is ioengine's to say; the part behind the semicolon is what to do.
func TestDoctorUring(t *testing.T) {
	refused := fmt.Errorf("io_uring_setup: %w; allow it in the seccomp profile", unix.EPERM)
	for name, tt := range map[string]struct {
		err     error
		engine  string
		device  string
		verdict string
		want    []string
	}{
		"there":   {nil, "auto", "/dev/null", verdictOK, []string{"gives rings of 77"}},
		"refused": {refused, "auto", "/dev/null", verdictWarn, []string{"not to be had (io_uring_setup: operation not permitted): engine auto serves on pread", "allow it in the seccomp profile"}},
		"away":    {refused, "auto", "/dev/none", verdictWarn, []string{"engine auto serves on pread"}},
		"needed":  {refused, "uring", "/dev/null", verdictFail, []string{"slab dev has engine uring and would not start", "allow it in the seccomp profile"}},
		"pread":   {refused, "pread", "/dev/null", verdictOK, []string{"no slab uses it"}},
		"file":    {refused, "auto", "/proc/self/exe", verdictOK, []string{"no slab uses it"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := otherHost(t, nil)
			d.probeUring = func(int) error { return tt.err }
			d.cfg.Slabs[0].Engine, d.cfg.Slabs[0].Device, d.cfg.Slabs[0].QueueDepth = tt.engine, tt.device, 77
			d.checkUring()
			d.last(t).wants(t, tt.verdict, tt.want...)
		})
	}
}

// The ring asked for is the largest that the daemon would ask for; what pread serves
// asks for none.
func TestDoctorUringDepth(t *testing.T) {
	d := otherHost(t, nil)
	s := d.cfg.Slabs[0]
	s.Device = "/dev/null"
	d.cfg.Slabs = nil
	for _, of := range []struct {
		engine string
		depth  int
	}{{"auto", 16}, {"uring", 2048}, {"auto", 128}, {"pread", 4096}} {
		s.Engine, s.QueueDepth = of.engine, of.depth
		d.cfg.Slabs = append(d.cfg.Slabs, s)
	}
	var asked []int
	d.probeUring = func(depth int) error {
		asked = append(asked, depth)
		return nil
	}
	d.checkUring()
	if !slices.Equal(asked, []int{2048}) {
		t.Errorf("asked for rings of %v, want one of 2048", asked)
	}
	d.last(t).wants(t, verdictOK, "gives rings of 2048")
}

func TestDoctorMemlock(t *testing.T) {
	const noCap, withCap = "Name:\tx\nCapEff:\t0000000000000000\n", "CapEff:\t0000000000004000\n"
	for name, tt := range map[string]struct {
		limit   uint64
		status  string
		engine  string
		verdict string
		want    []string
	}{
		"8 MiB":      {8 << 20, noCap, "auto", verdictWarn, []string{"8.0 MiB", "limits.stream_bytes for each slab that may use io_uring (512 MiB)", "LimitMEMLOCK=infinity"}},
		"64 KiB":     {64 << 10, noCap, "auto", verdictWarn, []string{"64 KiB"}},
		"capability": {64 << 10, withCap, "auto", verdictOK, []string{"CAP_IPC_LOCK"}},
		"enough":     {512 << 20, noCap, "auto", verdictOK, []string{"512 MiB"}},
		"too little": {512<<20 - 1, noCap, "auto", verdictWarn, nil},
		"unlimited":  {unix.RLIM_INFINITY, noCap, "auto", verdictOK, []string{"unlimited"}},
		"not needed": {64 << 10, noCap, "pread", verdictOK, []string{"no slab uses io_uring"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := otherHost(t, map[string]string{"proc/self/status": tt.status})
			d.rlimit = func(int) (unix.Rlimit, error) { return unix.Rlimit{Cur: tt.limit, Max: tt.limit}, nil }
			d.cfg.Slabs[0].Engine = tt.engine
			d.checkMemlock()
			d.last(t).wants(t, tt.verdict, tt.want...)
		})
	}
}

func TestDoctorLargePages(t *testing.T) {
	for text, want := range map[string][]string{
		"always [madvise] never": {verdictOK, "[madvise]"},
		"[always] madvise never": {verdictOK, "[always]"},
		"always madvise [never]": {verdictWarn, "switched off", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
		"":                       {verdictOK, "this kernel has none"},
	} {
		d := otherHost(t, map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": text})
		d.checkLargePages()
		d.last(t).wants(t, want[0], want[1:]...)
	}
}

func TestDoctorOpenFiles(t *testing.T) {
	for _, tt := range []struct {
		max     uint64
		verdict string
		want    string
	}{
		{1 << 20, verdictOK, "1,048,576, 1,352 are needed"},
		{1352, verdictOK, "1,352"},
		{1351, verdictWarn, "limits.requests (1024)"},
		{327, verdictFail, "the daemon alone needs 328"},
	} {
		d := otherHost(t, nil)
		d.rlimit = func(int) (unix.Rlimit, error) { return unix.Rlimit{Cur: 1, Max: tt.max}, nil }
		d.checkFiles()
		d.last(t).wants(t, tt.verdict, tt.want)
	}
}

// TestDoctorMemory: the need is stream_bytes, twice json_bytes, the cache, inflight_bytes
// of the slab and 64 B a slot, together 1.375 GiB; the lowest limit counts.
func TestDoctorMemory(t *testing.T) {
	const slots = 1 << 20 // 64 MiB of index
	const gib = "1073741824"
	v2 := map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 16000000 kB\n"}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{v2, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	for name, tt := range map[string]struct {
		files   map[string]string
		verdict string
		want    []string
	}{
		"host":       {v2, verdictOK, []string{"this host has 16 GiB", "up to 1.4 GiB", "1,048,576 slots"}},
		"unlimited":  {with(map[string]string{"sys/fs/cgroup/a/b/memory.max": "max\n"}), verdictOK, []string{"this host"}},
		"too little": {with(map[string]string{"sys/fs/cgroup/a/b/memory.max": gib}), verdictFail, []string{"cgroup/a/b has 1.0 GiB", "up to 1.4 GiB", "MemoryMax="}},
		"above":      {with(map[string]string{"sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/memory.max": gib}), verdictFail, []string{"cgroup/a has"}},
		"container":  {with(map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": gib}), verdictFail, []string{"fs/cgroup has 1.0 GiB"}},
		"little":     {with(map[string]string{"sys/fs/cgroup/a/b/memory.max": "1600000000"}), verdictWarn, []string{"leaves little"}},
		"enough":     {with(map[string]string{"sys/fs/cgroup/a/b/memory.max": "2147483648"}), verdictOK, []string{"has 2.0 GiB"}},
		"v1":         {with(map[string]string{"proc/self/cgroup": "4:cpu,memory:/c\n", "sys/fs/cgroup/memory/c/memory.limit_in_bytes": gib}), verdictFail, []string{"memory/c has"}},
		"v1 none":    {with(map[string]string{"proc/self/cgroup": "4:memory:/c\n", "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "9223372036854771712"}), verdictOK, []string{"this host"}},
		"v1 no host": {map[string]string{"proc/self/cgroup": "4:memory:/c\n", "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "9223372036854771712"}, verdictWarn, []string{"not known"}},
		"small host": {map[string]string{"proc/meminfo": "MemTotal: 1000000 kB\n"}, verdictFail, []string{"this host has 977 MiB"}},
		"busy host":  {map[string]string{"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 1000 kB\n"}, verdictWarn, []string{"only 1000 KiB"}},
		"nothing":    {nil, verdictWarn, []string{"the limit is not known"}},
		"outside":    {with(map[string]string{"proc/self/cgroup": "0::/../../x\n"}), verdictOK, []string{"this host"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := otherHost(t, tt.files)
			d.slots = slots
			if got, want := d.memoryNeed(), int64(512+2*256+64+256+64)<<20; got != want {
				t.Errorf("need: got %d, want %d", got, want)
			}
			d.checkMemory()
			d.last(t).wants(t, tt.verdict, tt.want...)
		})
	}
	if limit, _ := otherHost(t, nil).memoryLimit(); limit != math.MaxInt64 {
		t.Errorf("without a cgroup: got %d", limit)
	}
}

func TestDoctorSHM(t *testing.T) {
	d := otherHost(t, nil)
	d.cfg.SHM.Dirs = []string{filepath.Join(t.TempDir(), "none"), t.TempDir()}
	d.checkSHM()
	d.found[0].wants(t, verdictWarn, "no such file", "mount -t tmpfs")
	if s, err := spaceAt(d.cfg.SHM.Dirs[1]); err == nil && s.kind != "memory" {
		d.found[1].wants(t, verdictWarn, "is no memory file system")
	}
}

// TestDoctorQueue: hints from sysfs.
func TestDoctorQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		files   map[string]string
		verdict string
		want    []string
	}{
		"fine":      {map[string]string{"queue/rotational": "0", "queue/scheduler": "[none] mq-deadline", "queue/write_cache": "write back"}, verdictOK, []string{"scheduler none", "write cache write back"}},
		"spins":     {map[string]string{"queue/rotational": "1", "queue/scheduler": "[none]"}, verdictWarn, []string{"spinning disk", "/sys/block/nvme0n1/queue/rotational"}},
		"scheduler": {map[string]string{"queue/rotational": "0", "queue/scheduler": "none [bfq]"}, verdictWarn, []string{"scheduler bfq", "echo none > /sys/block/nvme0n1/queue/scheduler"}},
		"partition": {map[string]string{"nvme0n1p1/start": "63"}, verdictWarn, []string{"begins at byte 32256, inside a physical block of 4096 bytes"}},
		"aligned":   {map[string]string{"nvme0n1p1/start": "2048", "queue/scheduler": "none"}, verdictOK, []string{"nvme0n1: scheduler none"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for k, v := range tt.files {
				files["sys/block/nvme0n1/"+k] = v + "\n"
			}
			d := otherHost(t, files)
			s := sysDisk{whole: filepath.Join(d.sys, "block/nvme0n1")}
			s.dir = s.whole
			if _, part := tt.files["nvme0n1p1/start"]; part {
				s.dir = filepath.Join(s.whole, "nvme0n1p1")
			}
			d.checkQueue(s, slab.Report{Geometry: ioengine.Geometry{Physical: 4096, Block: 512}})
			d.last(t).wants(t, tt.verdict, tt.want...)
		})
	}
}

// TestDoctorTokens: what the daemon would refuse.
func TestDoctorTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for _, tt := range []struct {
		text    string
		mode    os.FileMode
		verdict string
		want    string
	}{
		{`[{name: a, token: "0123456789abcdef", namespaces: ["*"]}]`, 0o640, verdictOK, "mode 0640"},
		{`[{name: a, token: "0123456789abcdef", namespaces: ["*"]}]`, 0o644, verdictFail, "chmod o-rwx"},
		{`[{name: a, token: short, namespaces: ["*"]}]`, 0o600, verdictFail, "token"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		d := otherHost(t, nil)
		d.cfg.Auth.TokenFile = path
		d.checkSecrets()
		d.last(t).wants(t, tt.verdict, tt.want)
	}
}

func TestDoctorFolder(t *testing.T) {
	d := otherHost(t, nil)
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	d.checkFolder("k", open)
	d.checkFolder("k", filepath.Join(t.TempDir(), "a/b/c"))
	d.found[0].wants(t, verdictWarn, "can be changed by everybody", "chmod o-w "+open)
	d.found[1].wants(t, verdictOK, "it can be made in ")
}

// TestDoctorCertificate: one that is good, about to end, over, and no pair.
func TestDoctorCertificate(t *testing.T) {
	now := time.Now()
	cert, key := certificate(t, now.Add(-time.Hour), now.Add(90*24*time.Hour))
	_, stranger := certificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	soon, soonKey := certificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	over, overKey := certificate(t, now.Add(-2*time.Hour), now.Add(-time.Hour))
	early, earlyKey := certificate(t, now.Add(time.Hour), now.Add(90*24*time.Hour))
	for _, tt := range []struct{ cert, key, verdict, want string }{
		{cert, key, verdictOK, "is valid until"},
		{soon, soonKey, verdictWarn, "expires at"},
		{over, overKey, verdictFail, "expired at"},
		{early, earlyKey, verdictFail, "valid only from"},
		{cert, stranger, verdictFail, "private key does not match"},
		{cert, filepath.Join(t.TempDir(), "none"), verdictFail, "no such file"},
	} {
		d := otherHost(t, nil)
		d.cfg.TLS.CertFile, d.cfg.TLS.KeyFile = tt.cert, tt.key
		d.checkSecrets()
		d.last(t).wants(t, tt.verdict, tt.want)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	d := otherHost(t, nil)
	d.cfg.TLS.CertFile, d.cfg.TLS.KeyFile = cert, key
	d.checkSecrets()
	d.last(t).wants(t, verdictWarn, "everybody can read the key", "chmod o-rwx")
}

// certificate makes a certificate that signs itself, and its key.
func certificate(t *testing.T, from, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}
