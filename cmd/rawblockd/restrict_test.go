// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// beRestricted makes the test binary give up what its value names, and then become
// itself again without it: what it gave up stays away.
const beRestricted = "TEST_BINARY_IS_RESTRICTED"

// restrict gives up what how names and starts this program anew; it returns only where
// that cannot be done.
func restrict(how string) int {
	runtime.LockOSThread() // filters and capabilities are a thread's; exec keeps those of its caller
	do := map[string]func() error{
		"seccomp EPERM":  func() error { return forbidUring(unix.EPERM) },
		"seccomp ENOSYS": func() error { return forbidUring(unix.ENOSYS) },
		"memlock 8 MiB":  func() error { return limitMemlock(8 << 20) },
		"memlock 64 KiB": func() error { return limitMemlock(64 << 10) },
	}[how]
	err := fmt.Errorf("no restriction %q", how)
	if do != nil {
		err = do()
	}
	if err == nil {
		env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, beRestricted+"=") })
		err = unix.Exec("/proc/self/exe", os.Args, env)
	}
	fmt.Fprintf(os.Stderr, "restrict: %v\n", err)
	return 125
}

// forbidUring makes io_uring_setup fail, as the profiles of container engines do.
func forbidUring(errno unix.Errno) error {
	const nr = 0 // offset of the call's number in struct seccomp_data
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0); err != nil {
		return fmt.Errorf("seccomp filter: %w", err)
	}
	return nil
}

// limitMemlock bounds locked memory, also of root.
func limitMemlock(bytes uint64) error {
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0); err != nil {
		return fmt.Errorf("drop CAP_IPC_LOCK: %w", err)
	}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: bytes})
}
