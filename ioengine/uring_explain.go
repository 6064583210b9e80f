// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// explainUring says why the kernel gives no ring, or no registered memory, and what
// to do. The errno stays beneath.
func explainUring(err error) error {
	remedy := "keep engine: pread"
	switch disabled := sysctl("io_uring_disabled"); {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL): // before 5.6 flags are refused
		remedy = "run Linux 5.6 or later with io_uring built in and not kept away by a seccomp profile, or keep engine: pread"
	case errors.Is(err, unix.ENOMEM):
		remedy = fmt.Sprintf("the limit of locked memory is %s: raise it (LimitMEMLOCK=infinity in the unit, ulimit -l), or give this cgroup more memory", memlock())
	case errors.Is(err, unix.EPERM) && disabled == "2":
		remedy = "sysctl kernel.io_uring_disabled is 2: if it is wanted, run: sysctl -w kernel.io_uring_disabled=0"
	case errors.Is(err, unix.EPERM) && disabled == "1":
		remedy = fmt.Sprintf("sysctl kernel.io_uring_disabled is 1: if it is wanted, make the daemon's user a member of the group of sysctl kernel.io_uring_group (%s), or run: sysctl -w kernel.io_uring_disabled=0", sysctl("io_uring_group"))
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		remedy = "allow the system calls io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile of the container or service"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		remedy = "raise the limit of open files (LimitNOFILE in the unit)"
	}
	return fmt.Errorf("%w; %s", err, remedy)
}

// sysctl returns a setting of the kernel, or "unknown" where it has none.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/kernel/" + name)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// mayLock returns how many bytes this process may lock.
func mayLock() int64 {
	var l unix.Rlimit
	if capable(unix.CAP_IPC_LOCK) || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil {
		return math.MaxInt64 // or the kernel will say
	}
	return int64(min(l.Cur, math.MaxInt64))
}

// capable tells whether this process has a capability.
func capable(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}

func memlock() string {
	var l unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); {
	case err != nil:
		return "unknown"
	case l.Cur == unix.RLIM_INFINITY:
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", l.Cur>>10)
}
