// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func TestMain(m *testing.M) { testdev.Main(m) }

// In these tests every transfer takes exactly one service of fake time.
const service = time.Millisecond

const simSize = 256 << 20

// inBubble runs a test with an engine of so many workers on a simulated device.
func inBubble(t *testing.T, workers, ops int, opSize int64, test func(t *testing.T, dev *simdev.Device, st *station)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dev := simdev.New(simdev.Options{
			Size: simSize, Block: 4096, Parallel: workers,
			Service: func(ioengine.Dir, int) time.Duration { return service },
		})
		st := &station{
			engine: ioengine.NewPread(dev, ioengine.PreadOptions{Workers: workers}),
			opSize: opSize, area: simSize, rng: rand.New(rand.NewPCG(1, 1)),
		}
		if err := st.alloc(t.Context(), ops, 1); err != nil {
			t.Fatal(err)
		}
		test(t, dev, st)
		if err := st.close(); err != nil {
			t.Error(err)
		}
	})
}

// protocol ends between two services, so that no completion falls on an end.
func protocol() Protocol {
	return Protocol{Window: 100 * service, Ramp: 10*service + service/2, Time: time.Minute}
}

// A rolling window counts from the ramp's end to its last completion: as many ops as
// the depth for each service.
func TestRollingKeepsTheDepthUp(t *testing.T) {
	inBubble(t, 8, 8, 4096, func(t *testing.T, dev *simdev.Device, st *station) {
		s := shape{op: ioengine.Read, size: 4096, depth: 8}
		got, err := st.rolling(protocol(), s, payloadsFor(s), 1).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// From 10.5 ms to the completion at 111 ms, after the stop at 110.5: 101 turns.
		if want := int64(101 * 8 * 4096); got.By[ioengine.Read].Bytes != want {
			t.Errorf("%d bytes, want %d", got.By[ioengine.Read].Bytes, want)
		}
		if want := 100*service + service/2; got.Took != want {
			t.Errorf("took %v, want %v", got.Took, want)
		}
		if n := got.By[ioengine.Read].Lat.TotalCount(); n != 101*8 {
			t.Errorf("%d latencies, want %d", n, 101*8)
		}
		if p50 := quantile(got.By[ioengine.Read].Lat, 50); p50 < float64(service) || p50 > 1.001*float64(service) {
			t.Errorf("p50 %v ns, want one service", p50)
		}
		if dev.MaxInFlight() != 8 {
			t.Errorf("%d in flight, want 8", dev.MaxInFlight())
		}
	})
}

// Batches count from the end of one to the end of another: exactly whole ones, with
// the barrier between them.
func TestBatchesCountWhole(t *testing.T) {
	inBubble(t, 8, 12, 4096, func(t *testing.T, _ *simdev.Device, st *station) {
		got, err := st.callers(protocol(), aligned, st.slot(4096, 12, 0, true)).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// 12 ops on 8 places take two services; the ramp ends within the sixth batch.
		if want := int64(50 * 12 * 4096); got.By[ioengine.Write].Bytes != want || got.By[ioengine.Read].Bytes != 0 {
			t.Errorf("%d bytes written and %d read, want %d and 0", got.By[ioengine.Write].Bytes, got.By[ioengine.Read].Bytes, want)
		}
		if got.Took != 100*service {
			t.Errorf("took %v, want %v", got.Took, 100*service)
		}
		if p50 := quantile(got.By[ioengine.Write].Lat, 50); p50 < 2*float64(service) || p50 > 2.002*float64(service) {
			t.Errorf("a batch took %v ns, want two services", p50)
		}
	})
}

// A payload of several ops is one piece of the device, in order, and one latency.
func TestLargePayload(t *testing.T) {
	inBubble(t, 4, 3*2, ioengine.PieceSize, func(t *testing.T, _ *simdev.Device, st *station) {
		const payload = 2*ioengine.PieceSize + 8192
		sl := st.slot(payload, 2, 1, true)
		got, err := st.callers(protocol(), aligned, sl).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for key := range 2 {
			ops := sl.ops[key*3 : key*3+3]
			if ops[0].Off%payload != 0 || ops[1].Off != ops[0].Off+ioengine.PieceSize || ops[2].Off != ops[1].Off+ioengine.PieceSize || ops[2].Len() != 8192 {
				t.Errorf("ops at %d, %d, %d; the last one of %d bytes", ops[0].Off, ops[1].Off, ops[2].Off, ops[2].Len())
			}
		}
		if bytes := got.By[ioengine.Read].Bytes; bytes == 0 || bytes%(2*payload) != 0 {
			t.Errorf("%d bytes, want whole batches of %d", bytes, 2*payload)
		}
	})
}

// A load that is still under way when a timed window ends counts with all of its time.
func TestTimedWindowKeepsTheSlow(t *testing.T) {
	inBubble(t, 1, 1, 4096, func(t *testing.T, _ *simdev.Device, st *station) {
		p := Protocol{Window: service / 4, Ramp: service / 4}
		got, err := st.callers(p, timed, st.slot(4096, 1, 1, true)).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := got.By[ioengine.Read].Lat.TotalCount(); n != 1 || got.bytes() != 0 || got.Took != service/4 {
			t.Errorf("%d latencies, %d bytes in %v; want one, none and a quarter of a service", n, got.bytes(), got.Took)
		}
	})
}

// A mix reads about seven of ten.
func TestMixedSlots(t *testing.T) {
	inBubble(t, 8, 8, 4096, func(t *testing.T, _ *simdev.Device, st *station) {
		slots := make([]*slot, 8)
		for i := range slots {
			slots[i] = st.slot(4096, 1, mixLoads, false)
		}
		got, err := st.run(t.Context(), protocol(), drained, slots)
		if err != nil {
			t.Fatal(err)
		}
		share := float64(got.By[ioengine.Read].Bytes) / float64(got.bytes())
		if share < 0.64 || share > 0.76 { // four standard deviations of 808 draws
			t.Errorf("%.2f of the bytes were read, want about 0.7", share)
		}
	})
}

// An op that fails ends the window with its error, and nothing is left under way.
func TestFailedOpEndsTheWindow(t *testing.T) {
	for _, end := range []ending{drained, aligned, timed} {
		inBubble(t, 4, 4, 4096, func(t *testing.T, dev *simdev.Device, st *station) {
			dev.FailRange(ioengine.Read, 0, simSize, unix.EIO)
			start := time.Now()
			_, err := st.callers(protocol(), end, st.slot(4096, 4, 1, end != drained)).run(t.Context())
			if !errors.Is(err, unix.EIO) {
				t.Errorf("ending %d: got %v, want EIO", end, err)
			}
			if took := time.Since(start); took > 2*service {
				t.Errorf("ending %d: took %v, want to end at once", end, took)
			}
			if n := st.engine.Stats().InFlightOps; n != 0 {
				t.Errorf("ending %d: %d ops in flight", end, n)
			}
		})
	}
}

// A cancelled window waits for what is on the device, and no longer.
func TestCancelledWindow(t *testing.T) {
	for _, end := range []ending{drained, aligned, timed} {
		inBubble(t, 4, 4, 4096, func(t *testing.T, _ *simdev.Device, st *station) {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(20*service+service/2, func() { cancel(cause) })
			start := time.Now()
			_, err := st.callers(protocol(), end, st.slot(4096, 4, 1, end != drained)).run(ctx)
			if !errors.Is(err, cause) {
				t.Errorf("ending %d: got %v, want the cause", end, err)
			}
			if took := time.Since(start); took != 21*service {
				t.Errorf("ending %d: took %v, want to the end of the op under way", end, took)
			}
		})
	}
}

// Rounds run forwards and backwards in turn, the sides that only the first rounds have
// are left out then, and the interval, the pairs or the time end them.
func TestRounds(t *testing.T) {
	for name, tc := range map[string]struct {
		p      Protocol
		narrow bool
		want   int
	}{
		"interval": {Protocol{Time: time.Hour}, true, fewRounds},
		"pairs":    {Protocol{Time: time.Hour, Pairs: 3}, true, 3},
		"time":     {Protocol{Time: 10 * time.Second}, false, 4}, // 3, 2, 2 and 2 seconds
	} {
		synctest.Test(t, func(t *testing.T) {
			order := ""
			sleepy := func(name string) func(context.Context) (Sample, error) {
				return func(context.Context) (Sample, error) {
					order += name
					time.Sleep(time.Second)
					return Sample{Took: time.Second}, nil
				}
			}
			sides := []side{{run: sleepy("a")}, {run: sleepy("b")}, {run: sleepy("c"), first: 1}}
			all, err := tc.p.rounds(t.Context(), sides, func([][]Sample) bool { return tc.narrow })
			if err != nil || len(all) != tc.want {
				t.Fatalf("%s: %d rounds, %v; want %d", name, len(all), err, tc.want)
			}
			if order[:7] != "abcbaab" {
				t.Errorf("%s: ran %s, want abc, ba, ab, …", name, order)
			}
			if n := len(column(all, 2)); n != 1 {
				t.Errorf("%s: %d samples of the side for one round", name, n)
			}
		})
	}
}
