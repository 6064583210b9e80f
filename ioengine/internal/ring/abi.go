// SPDX-License-Identifier: Apache-2.0

package ring

// The kernel's interface, from include/uapi/linux/io_uring.h. Its names in lower
// case; sizes are checked by a test.

const (
	setupCQSize    = 1 << 3
	setupClamp     = 1 << 4
	setupSubmitAll = 1 << 7 // Linux 5.18

	featSingleMmap   = 1 << 0 // Linux 5.4
	featNoDrop       = 1 << 1 // Linux 5.5
	featSubmitStable = 1 << 2 // Linux 5.5: what an entry points to is free after the submission

	offSQRing = 0
	offSQEs   = 0x10000000

	registerBuffers   = 0
	unregisterBuffers = 1
	registerFiles     = 2
	unregisterFiles   = 3
	registerProbe     = 8 // Linux 5.6

	opReadv      = 1
	opWritev     = 2
	opReadFixed  = 4
	opWriteFixed = 5
	opRead       = 22 // Linux 5.6
	opWrite      = 23
	// Of a vector within one registered buffer; Linux 6.15.
	opReadvFixed  = 60
	opWritevFixed = 61

	sqeFixedFile = 1 << 0

	opSupported = 1 << 0
)

// params is struct io_uring_params.
type params struct {
	sqEntries    uint32
	cqEntries    uint32
	flags        uint32
	sqThreadCPU  uint32
	sqThreadIdle uint32
	features     uint32
	wqFd         uint32
	_            [3]uint32
	sqOff        sqOffsets
	cqOff        cqOffsets
}

// sqOffsets is struct io_sqring_offsets: places in the mapping of the rings.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
	_                                                           uint64
}

// cqOffsets is struct io_cqring_offsets.
type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
	_                                                           uint64
}

// sqe is struct io_uring_sqe.
type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32 // index of a registered file with sqeFixedFile
	off      uint64
	addr     uint64
	len      uint32
	rwFlags  uint32
	userData uint64
	bufIndex uint16
	_        uint16 // personality
	_        uint32
	_        [2]uint64
}

// cqe is struct io_uring_cqe.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// probeOps is how many opcodes one Probe can describe.
const probeOps = 64

// probe is struct io_uring_probe.
type probe struct {
	lastOp uint8
	opsLen uint8
	_      uint16
	_      [3]uint32
	ops    [probeOps]probeOp
}

// probeOp is struct io_uring_probe_op.
type probeOp struct {
	op    uint8
	_     uint8
	flags uint16
	_     uint32
}
