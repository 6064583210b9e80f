// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxEntries is how many entries a ring may have (IORING_MAX_ENTRIES is eight times
// as many; the kernel's memory for this many is about 1 MiB).
const MaxEntries = 4096

// MaxParts is the most parts of an entry's Vec (IOV_MAX).
const MaxParts = 1024

// Entry asks for one transfer. The kernel owns the memory from Submit until the
// Completion.
type Entry struct {
	User  uint64 // comes back in the Completion
	Write bool
	Off   int64    // bytes from the start of the file
	Vec   [][]byte // at most MaxParts parts, together less than 2 GiB, outside the Go heap
}

// Completion is what became of an Entry.
type Completion struct {
	User uint64
	Res  int32 // bytes moved, or a negative errno
}

// Ring is one io_uring over one file.
type Ring struct {
	file *os.File // of the ring itself: what Reap waits for
	conn syscall.RawConn
	fd   int

	rings, sqeMem []byte // mappings
	sq            queue
	array         []uint32
	sqes          []sqe
	cq            queue
	cqes          []cqe

	target    int32 // descriptor of the file, or its registered index
	fixed     uint8 // sqeFixedFile if target is an index
	memory    [][]byte
	vecFixed  bool // opReadvFixed and opWritevFixed are to be had
	iovecs    []unix.Iovec
	reaping   sync.Mutex         // held by Reap while it uses the mappings
	into      []Completion       // of the Reap that waits
	got       int                // its result
	ready     func(uintptr) bool // wait, made once: a Reap allocates nothing
	closeOnce sync.Once
	closeErr  error
}

// queue is one of the two rings of indexes shared with the kernel.
type queue struct {
	head, tail *uint32
	mask       uint32
}

// Open makes a ring that can have entries under way (1 to MaxEntries) on the file fd,
// and registers the file. Close gives the file back; fd may be closed before that.
func Open(fd, entries int) (*Ring, error) {
	if entries < 1 || entries > MaxEntries {
		return nil, fmt.Errorf("ring of %d entries: want 1 to %d", entries, MaxEntries)
	}
	r, err := open(uint32(entries))
	if err != nil {
		return nil, err
	}
	files := [1]int32{int32(fd)}
	if err := r.register(registerFiles, unsafe.Pointer(&files), 1); err != nil {
		return nil, errors.Join(fmt.Errorf("io_uring_register the device: %w", err), r.Close())
	}
	r.target, r.fixed = 0, sqeFixedFile
	return r, nil
}

// open makes a ring without a file.
func open(entries uint32) (*Ring, error) {
	var p params
	fd, err := setup(entries, &p)
	if err != nil {
		return nil, fmt.Errorf("io_uring_setup: %w", err)
	}
	if err := usable(&p); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for the poller
		return nil, errors.Join(fmt.Errorf("ring: %w", err), unix.Close(fd))
	}
	r := &Ring{fd: fd, file: os.NewFile(uintptr(fd), "io_uring")}
	r.ready = r.wait
	if err := r.prepare(&p); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// setup is io_uring_setup, with what older kernels do not know left out there.
func setup(entries uint32, p *params) (fd int, err error) {
	for _, flags := range []uint32{setupClamp | setupCQSize | setupSubmitAll, setupClamp | setupCQSize} {
		*p = params{flags: flags, cqEntries: 2 * entries}
		n, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
		if errno == 0 {
			return int(n), nil // closed on exec, as the kernel makes it
		}
		if err = errno; !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	return -1, err
}

func usable(p *params) error {
	const need = featSingleMmap | featNoDrop | featSubmitStable
	if p.features&need != need {
		return fmt.Errorf("io_uring of this kernel lacks features %#x: %w", need&^p.features, unix.ENOSYS)
	}
	return nil
}

// prepare maps the rings, asks which opcodes there are, and joins the poller.
func (r *Ring) prepare(p *params) error {
	size := max(int(p.sqOff.array+p.sqEntries*4), int(p.cqOff.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(cqe{})))
	var err error
	if r.rings, err = r.mmap(offSQRing, size); err != nil {
		return err
	}
	if r.sqeMem, err = r.mmap(offSQEs, int(p.sqEntries)*int(unsafe.Sizeof(sqe{}))); err != nil {
		return err
	}
	at := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[off])) }
	r.sq = queue{head: at(p.sqOff.head), tail: at(p.sqOff.tail), mask: *at(p.sqOff.ringMask)}
	r.cq = queue{head: at(p.cqOff.head), tail: at(p.cqOff.tail), mask: *at(p.cqOff.ringMask)}
	r.array = unsafe.Slice(at(p.sqOff.array), p.sqEntries)
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.sqeMem[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.rings[p.cqOff.cqes])), p.cqEntries)
	for i := range r.array {
		r.array[i] = uint32(i)
	}
	if err := r.opcodes(); err != nil {
		return err
	}
	if _, err := r.enter(0); err != nil { // it may be forbidden although the ring is not
		return err
	}
	return r.poll()
}

func (r *Ring) mmap(off int64, size int) ([]byte, error) {
	mem, err := unix.Mmap(r.fd, off, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of a ring: %w", size, err)
	}
	return mem, nil
}

// opcodes fails if one is missing that every entry may need.
func (r *Ring) opcodes() error {
	var p probe
	if err := r.register(registerProbe, unsafe.Pointer(&p), probeOps); err != nil {
		return fmt.Errorf("io_uring_register a probe: %w", err)
	}
	has := func(op uint8) bool { return op < p.opsLen && op < probeOps && p.ops[op].flags&opSupported != 0 }
	for _, op := range []uint8{opReadv, opWritev, opReadFixed, opWriteFixed, opRead, opWrite} {
		if !has(op) {
			return fmt.Errorf("io_uring of this kernel lacks opcode %d: %w", op, unix.ENOSYS)
		}
	}
	r.vecFixed = has(opReadvFixed) && has(opWritevFixed)
	return nil
}

// poll joins the runtime's poller; without it a Reap would never be woken.
func (r *Ring) poll() error {
	if err := r.file.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("wait for a ring: %w", err)
	}
	var err error
	r.conn, err = r.file.SyscallConn()
	return err
}

// Register gives the kernel memory, in parts of at most 1 GiB, from which entries
// move without finding and pinning its pages each time. It counts as locked memory
// (ENOMEM beyond the limit). Once, and before the first Submit.
func (r *Ring) Register(memory [][]byte) error {
	if len(memory) == 0 {
		return nil
	}
	iovecs := make([]unix.Iovec, len(memory))
	for i, m := range memory {
		iovecs[i] = iovec(m)
	}
	if err := r.register(registerBuffers, unsafe.Pointer(&iovecs[0]), len(iovecs)); err != nil {
		return fmt.Errorf("io_uring_register memory: %w", err)
	}
	r.memory = memory
	return nil
}

func (r *Ring) register(what int, arg unsafe.Pointer, n int) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uintptr(what), uintptr(arg), uintptr(n), 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}

func iovec(part []byte) unix.Iovec {
	v := unix.Iovec{Base: unsafe.SliceData(part)}
	v.SetLen(len(part))
	return v
}

// Submit hands entries to the kernel in their order, with one system call, and
// returns how many it took. It takes fewer without an error when it met one behind
// the first, which the next call will tell: EAGAIN and EBUSY when it lacks room now.
// What was not taken is as if it had never been submitted.
func (r *Ring) Submit(entries []Entry) (n int, err error) {
	entries = entries[:min(len(entries), len(r.sqes))]
	if len(entries) == 0 {
		return 0, nil
	}
	tail := *r.sq.tail // ours alone
	r.iovecs = r.iovecs[:0]
	r.reserve(entries)
	for i := range entries {
		r.fill(&r.sqes[(tail+uint32(i))&r.sq.mask], &entries[i])
	}
	atomic.StoreUint32(r.sq.tail, tail+uint32(len(entries)))
	n, err = r.enter(len(entries))
	if n < len(entries) { // nobody but io_uring_enter looks at the tail
		atomic.StoreUint32(r.sq.tail, tail+uint32(n))
	}
	return n, err
}

func (r *Ring) enter(submit int) (n int, err error) {
	for {
		took, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), 0, 0, 0, 0)
		switch errno {
		case 0:
			return int(took), nil
		case unix.EINTR:
			continue
		}
		return 0, os.NewSyscallError("io_uring_enter", errno)
	}
}

// reserve makes room for the vectors of all entries: what one of them points to must
// not move before the kernel has seen it.
func (r *Ring) reserve(entries []Entry) {
	parts := 0
	for i := range entries {
		parts += len(entries[i].Vec)
	}
	if parts > cap(r.iovecs) {
		r.iovecs = make([]unix.Iovec, 0, 2*parts)
	}
}

// fill writes one entry down for the kernel. Empty parts are left out: a registered
// vector must not have any.
func (r *Ring) fill(s *sqe, e *Entry) {
	*s = sqe{flags: r.fixed, fd: r.target, off: uint64(e.Off), userData: e.User}
	first := len(r.iovecs)
	for _, part := range e.Vec {
		if len(part) > 0 {
			r.iovecs = append(r.iovecs, iovec(part))
		}
	}
	vec := r.iovecs[first:]
	index, registered := r.within(vec)
	if len(vec) == 1 {
		s.addr, s.len = uint64(uintptr(unsafe.Pointer(vec[0].Base))), uint32(vec[0].Len)
		s.opcode = pickOp(e.Write, opRead, opWrite)
		if registered {
			s.opcode, s.bufIndex = pickOp(e.Write, opReadFixed, opWriteFixed), index
		}
		return
	}
	s.len = uint32(len(vec))
	if len(vec) > 0 {
		s.addr = uint64(uintptr(unsafe.Pointer(&vec[0])))
	}
	s.opcode = pickOp(e.Write, opReadv, opWritev)
	if registered && r.vecFixed {
		s.opcode, s.bufIndex = pickOp(e.Write, opReadvFixed, opWritevFixed), index
	}
}

func pickOp(write bool, read, written uint8) uint8 {
	if write {
		return written
	}
	return read
}

// within returns the registered part of memory that all of vec lies in.
func (r *Ring) within(vec []unix.Iovec) (index uint16, ok bool) {
next:
	for i, m := range r.memory {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(m)))
		for _, part := range vec {
			at := uintptr(unsafe.Pointer(part.Base))
			if at < from || at+uintptr(part.Len) > from+uintptr(len(m)) {
				continue next
			}
		}
		return uint16(i), len(vec) > 0
	}
	return 0, false
}

// Reap waits for completions and puts as many as there are and fit into into; at
// least one. After Close it fails with os.ErrClosed.
func (r *Ring) Reap(into []Completion) (n int, err error) {
	r.reaping.Lock()
	defer r.reaping.Unlock()
	if r.rings == nil {
		return 0, os.ErrClosed
	}
	if n = r.drain(into); n > 0 {
		return n, nil
	}
	r.into = into
	err = r.conn.Read(r.ready)
	n, r.into = r.got, nil
	if err != nil { // the poller has nothing else to say of an open ring
		return 0, fmt.Errorf("%w: %w", os.ErrClosed, err)
	}
	return n, nil
}

// wait is what the poller asks: whether there is something, else it waits on.
func (r *Ring) wait(uintptr) bool {
	r.got = r.drain(r.into)
	return r.got > 0
}

// drain takes what the completion queue has.
func (r *Ring) drain(into []Completion) int {
	head, tail := *r.cq.head, atomic.LoadUint32(r.cq.tail) // the head is ours alone
	n := min(int(tail-head), len(into))
	for i := range n {
		c := &r.cqes[(head+uint32(i))&r.cq.mask]
		into[i] = Completion{User: c.userData, Res: c.res}
	}
	atomic.StoreUint32(r.cq.head, head+uint32(n))
	return n
}

// Close gives the file and the memory back at once, ends a Reap, and frees the ring.
// Nothing may be under way.
func (r *Ring) Close() error {
	r.closeOnce.Do(func() { r.closeErr = r.close() })
	return r.closeErr
}

func (r *Ring) close() error {
	// The kernel takes a closed ring apart in its own time. What it holds is given
	// back here, so that the device is free when this returns.
	var err error
	if r.fixed != 0 {
		err = r.register(unregisterFiles, nil, 0)
	}
	if len(r.memory) > 0 {
		err = errors.Join(err, r.register(unregisterBuffers, nil, 0))
	}
	err = errors.Join(err, r.file.Close())
	r.reaping.Lock()
	defer r.reaping.Unlock()
	for _, mem := range [][]byte{r.rings, r.sqeMem} {
		if mem != nil {
			err = errors.Join(err, unix.Munmap(mem))
		}
	}
	r.rings, r.sqeMem = nil, nil
	return err
}
