// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// The words for how a slab is, worst last.
const (
	HealthOnline   = "online"
	HealthDegraded = "degraded"  // it serves, but its device fails some transfers, all stores, or to flush
	HealthDraining = "draining"  // takes no stores because somebody wants it empty of them; serves
	HealthReadOnly = "read_only" // takes no stores, for good; serves
	HealthOffline  = "offline"   // serves nothing until its device gives a sign of life
	HealthMissing  = "missing"   // its device could not be opened at the start
)

// Healths lists the words, in that order.
func Healths() []string {
	return []string{HealthOnline, HealthDegraded, HealthDraining, HealthReadOnly, HealthOffline, HealthMissing}
}

const (
	failLimit  = 16               // errors in a row, one direction: so many ask whether the device is dead, or keep stores away
	hangLimit  = 15 * time.Second // a transfer or flush that is on the device for so long hangs
	lateLimit  = time.Second      // one that is there for so long may hang: stores go elsewhere, if they can
	probeEvery = 5 * time.Second  // between two looks for a sign of life
	shutMost   = time.Minute      // longest time without stores before they are tried again
	rateWindow = time.Minute      // what counts for degraded
)

// health is how the slab of one volume is: by the errors of its device and by ops
// that do not come back, never by load.
//
// Reads and writes are judged apart, because a drive at the end of its life often
// still reads. After enough failed reads in a row its label is read: if that fails
// too the slab is offline, until its label can be read again. Failed writes in a row
// only keep stores away, which are tried again after a while. After either one error
// is enough for the next time, until there is a success.
type health struct {
	// Counted on every transfer, without the lock.
	ops  atomic.Uint64
	errs atomic.Uint64
	run  [2]atomic.Int32 // errors in a row, by ioengine.Dir; of reads: those of loads

	scrubRun atomic.Int32 // errors in a row of a scrub's reads

	now      atomic.Pointer[view]
	down     signal // on while it serves nothing: what has not begun there need not
	stuck    signal // on while an op hangs: what is under way there may never end
	unsynced signal // on while an op or a flush hangs

	mu sync.Mutex
	// +checklocks:mu
	c condition
}

// condition is all that the health follows from.
type condition struct {
	missing string // why it has no device; for good
	advice  string // what to do about that

	dead    string    // why it is offline, if errors say so
	sign    string    // what came of the last look for a sign of life, if it was none
	probeAt time.Time // when to look next
	probing bool      // a look is under way

	suspect bool   // reads fail, and its label is being read to find out more
	worn    string // why no more slots are put out of use; until the end of the process

	hung bool // an op hangs
	slow bool // a flush hangs

	shut      string // why it takes no stores, if errors say so
	shutUntil time.Time
	shutFor   time.Duration

	draining bool

	last    string   // the last error
	samples []sample // oldest first: the last one from before the rateWindow, and all since
	rate    string   // what the samples say, if it is bad
}

// sample is the counters at one moment.
type sample struct {
	at        time.Time
	ops, errs uint64
}

// view is what follows from a slab's health. It is immutable.
type view struct {
	word, reason   string
	serves, stores bool
	stuck          bool   // what is under way may never end
	sound          bool   // an error says something about its place
	worn           string // condition.worn
	err            error  // for keys that cannot be served or stored
}

// signal is a condition that can be waited for.
type signal struct {
	mu sync.Mutex
	// +checklocks:mu
	ctx context.Context
	// +checklocks:mu
	fire context.CancelFunc
}

// on returns a context that ends when the condition holds; it has ended already if
// it does.
func (g *signal) on() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.onLocked()
}

// +checklocks:g.mu
func (g *signal) onLocked() context.Context {
	if g.ctx == nil {
		g.ctx, g.fire = context.WithCancel(context.Background())
	}
	return g.ctx
}

// set says whether the condition holds.
func (g *signal) set(holds bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ended := g.onLocked().Err() != nil
	switch {
	case holds && !ended:
		g.fire()
	case !holds && ended:
		g.ctx = nil
	}
}

// judge draws the conclusion.
func (c *condition) judge(name string) *view {
	is := &view{word: HealthOnline, serves: true, stores: true}
	var why []string
	say := func(word, text string, serves, stores bool) {
		is.word = word
		is.serves, is.stores = is.serves && serves, is.stores && stores
		why = append(why, text)
	}
	if c.rate != "" {
		say(HealthDegraded, c.rate, true, true)
	}
	if c.worn != "" {
		say(HealthDegraded, c.worn, true, true)
	}
	if c.slow {
		say(HealthDegraded, fmt.Sprintf("a flush has been on the device for more than %v", hangLimit), true, false)
	}
	if c.shut != "" {
		say(HealthDegraded, c.shut, true, false)
	}
	if c.draining {
		say(HealthDraining, "it is being drained", true, false)
	}
	if c.hung {
		say(HealthOffline, fmt.Sprintf("a transfer has been on the device for more than %v", hangLimit), false, false)
	}
	if c.dead != "" {
		say(HealthOffline, c.dead+c.sign, false, false)
	}
	if c.missing != "" {
		why = nil
		say(HealthMissing, c.missing, false, false)
	}
	is.reason = strings.Join(why, "; ")
	is.stuck = c.hung
	is.sound, is.worn = is.serves && c.shut == "" && !c.suspect, c.worn
	if !is.stores {
		is.err = &SlabError{name, is.word, is.reason}
	}
	if c.missing != "" && c.advice != "" { // for those who keep the daemon, not for each key of its clients
		is.reason += "; " + c.advice
	}
	return is
}

// change changes what the health follows from and returns what it was and is.
func (h *health) change(name string, change func(c *condition)) (was, is *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.c)
	is = h.c.judge(name)
	was = h.now.Swap(is)
	h.down.set(!is.serves)
	h.stuck.set(h.c.hung)
	h.unsynced.set(h.c.hung || h.c.slow)
	return was, is
}

// say changes the health of v's slab and tells the log if that shows.
func (v *volume) say(change func(c *condition)) {
	was, is := v.health.change(v.slab.Name(), change)
	switch {
	case was != nil && was.word == is.word, is.word == HealthMissing:
	case is.word == HealthOffline:
		v.log.Error("slab is offline: its keys are unavailable and stores go elsewhere", "slab", v.slab.Name(), "device", v.slab.Device(), "reason", is.reason)
	case is.word != HealthOnline:
		v.log.Warn("slab is "+is.word, "slab", v.slab.Name(), "device", v.slab.Device(), "reason", is.reason)
	case was != nil:
		v.log.Info("slab is online again", "slab", v.slab.Name(), "device", v.slab.Device())
	}
}

// serves tells whether what is on the slab can be loaded; else the error says why.
func (v *volume) serves() (bool, error) {
	if now := v.health.now.Load(); !now.serves {
		return false, now.err
	}
	return true, nil
}

// refuses returns why the slab takes no stores, or nil.
func (v *volume) refuses() error {
	if now := v.health.now.Load(); !now.stores {
		return now.err
	}
	if why, ro := v.slab.ReadOnly(); ro {
		return &SlabError{v.slab.Name(), HealthReadOnly, why}
	}
	return nil
}

// state is the slab's health for people.
func (v *volume) state() (word, reason string) {
	now := v.health.now.Load()
	why, ro := v.slab.ReadOnly()
	switch {
	case !ro || !now.serves:
		return now.word, now.reason
	case now.reason != "":
		why += "; " + now.reason
	}
	return HealthReadOnly, why
}

// worked notes a transfer that succeeded.
func (v *volume) worked(dir ioengine.Dir) {
	h := &v.health
	h.ops.Add(1)
	if dir == ioengine.Read && h.scrubRun.Load() != 0 {
		h.scrubRun.Store(0)
	}
	if h.run[dir].Load() == 0 {
		return
	}
	h.run[dir].Store(0)
	if dir == ioengine.Write {
		v.say(func(c *condition) { c.shut, c.shutFor = "", 0 })
	}
}

// unwritten notes a write that the device failed. What is none of the device's
// doing does not count.
func (v *volume) unwritten(err error) {
	if !deviceFault(err) {
		return
	}
	h := &v.health
	h.ops.Add(1)
	h.errs.Add(1)
	n := h.run[ioengine.Write].Add(1)
	switch {
	case isGone(err):
		v.goOffline(fmt.Sprintf("its device is gone: %v; restart the daemon when it is back", err))
	case n >= failLimit:
		v.keepOut(err)
	default:
		h.remember(err)
	}
	v.wake()
}

// flawed notes a transfer that succeeded and brought wrong bytes.
func (v *volume) flawed(err error) {
	v.worked(ioengine.Read)
	v.health.errs.Add(1)
	v.health.remember(err)
	v.wake()
}

func (h *health) remember(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.c.last = err.Error()
}

// goOffline takes the slab out of service until probes find it alive.
func (v *volume) goOffline(why string) {
	v.say(func(c *condition) {
		if c.dead == "" {
			c.dead, c.probeAt = why, time.Now().Add(probeEvery)
		}
	})
}

// keepOut keeps stores away for a while, longer each time.
func (v *volume) keepOut(err error) {
	v.say(func(c *condition) {
		if c.shut != "" {
			return // these were under way
		}
		c.shutFor = min(max(2*c.shutFor, probeEvery), shutMost)
		c.shutUntil = time.Now().Add(c.shutFor)
		c.probeAt = time.Now() // it may be dead altogether
		c.shut = fmt.Sprintf("every write fails, stores are tried again in %v; the last one: %v", c.shutFor, err)
	})
}

// errOut ends what waits for a slab that is out of service.
var errOut = errors.New("the slab went out of service")

// deviceFault tells errors of the device from those of who asked, and of a host
// that is short of memory.
func deviceFault(err error) bool {
	var transfer *slab.IOError
	if !errors.As(err, &transfer) {
		return false
	}
	for _, other := range []error{
		ioengine.ErrClosed, ioengine.ErrUnaligned,
		syscall.EFAULT, syscall.EINVAL, syscall.EAGAIN, syscall.ENOMEM,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// isGone tells that there is no device behind the descriptor any more.
func isGone(err error) bool {
	return errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENOMEDIUM)
}

// accuses tells whether an error says that the place on the medium is bad, so that
// its slots are better not used again. Of others nobody can say that.
func accuses(err error) bool {
	for _, medium := range []error{syscall.EIO, syscall.ENODATA, syscall.EREMOTEIO, syscall.EILSEQ} {
		if errors.Is(err, medium) {
			return true
		}
	}
	return false
}
