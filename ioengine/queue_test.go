// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var anyDevice = Geometry{Size: 1 << 40, Block: 1, MemAlign: 1}

// batchOf builds a batch from "r" and "w" and sizes.
func batchOf(dirs string, size func(i int) int) *batch {
	b := &batch{ops: make([]Op, len(dirs))}
	for i, d := range dirs {
		if d == 'w' {
			b.ops[i].Dir = Write
		}
		b.ops[i].Vec = [][]byte{make([]byte, size(i))}
	}
	return b
}

func oneByte(int) int { return 1 }

func TestQueueRoundRobin(t *testing.T) {
	var q queue
	a, b, c := batchOf("rrrr", oneByte), batchOf("rr", oneByte), batchOf("r", oneByte)
	names := map[*batch]string{a: "a", b: "b", c: "c"}
	q.add(a)
	q.add(b)
	var got []string
	for i := 0; q.ops > 0; i++ {
		if i == 1 {
			q.add(c)
		}
		p, _ := q.peek(&anyDevice)
		q.take(p)
		got = append(got, names[p.b])
	}
	if want := []string{"a", "b", "a", "c", "b", "a", "a"}; !slices.Equal(got, want) {
		t.Errorf("order of batches: got %v, want %v", got, want)
	}
	if _, ok := q.peek(&anyDevice); ok {
		t.Error("an empty queue has something to start")
	}
}

func TestQueueLoadsFirstThenOneStore(t *testing.T) {
	var q queue
	q.add(batchOf("wwwwrrrrrrrrrrrrrrrrrrrr", oneByte))
	var got []byte
	for q.ops > 0 {
		p, _ := q.peek(&anyDevice)
		q.take(p)
		got = append(got, p.dir.String()[0])
	}
	if want := "rrrrrrrwrrrrrrrwrrrrrrww"; string(got) != want {
		t.Errorf("order: got %s, want %s", got, want)
	}
}

func TestQueueIdleTimeEarnsNothing(t *testing.T) {
	var q queue
	drain := func() {
		for q.ops > 0 {
			p, _ := q.peek(&anyDevice)
			q.take(p)
		}
	}
	q.add(batchOf("rrrrrrrrrrrrrrrrrrrrrrrrrrrrrr", oneByte)) // alone
	drain()
	q.add(batchOf("rrrrrrw", oneByte)) // six bytes of credit and no store left
	drain()
	q.add(batchOf("wrrrrrrrr", oneByte))
	for i := range 7 {
		p, _ := q.peek(&anyDevice)
		if p.dir != Read {
			t.Fatalf("a store overtook after %d loads, want 7", i)
		}
		q.take(p)
	}
	if p, _ := q.peek(&anyDevice); p.dir != Write {
		t.Error("the store did not have its turn after seven loads")
	}
}

func TestQueueIdleTimeCostsNothing(t *testing.T) {
	var q queue
	q.add(batchOf("wwwwwwwwww", oneByte))
	for range 5 { // alone: nobody was kept waiting
		p, _ := q.peek(&anyDevice)
		q.take(p)
	}
	q.add(batchOf("rrrrrrrrrrrrrrrrrrrr", oneByte))
	loads := 0
	for {
		p, _ := q.peek(&anyDevice)
		if p.dir == Write {
			break
		}
		loads++
		q.take(p)
	}
	if loads != loadShare {
		t.Errorf("the next store had to wait for %d loads, want %d", loads, loadShare)
	}
}

// While both wait, stores never get more than their share, and loads never get
// more than what the next store has to wait for.
func TestQueueShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		sizes := rapid.SliceOfN(rapid.IntRange(0, 1000), 8, 8)
		largest := int64(1000)
		var loads, stores int64
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			dirs := rapid.StringOfN(rapid.RuneFrom([]rune("rw")), 1, 60, -1).Draw(t, "dirs")
			s := sizes.Draw(t, "sizes")
			q.add(batchOf(dirs, func(i int) int { return s[i%len(s)] }))
		}
		total := q.ops
		for taken := 0; q.ops > 0; taken++ {
			both := q.lines[Read].first != nil && q.lines[Write].first != nil
			p, ok := q.peek(&anyDevice)
			if !ok {
				t.Fatalf("%d of %d ops taken, none to start", taken, total)
			}
			if both && p.dir == Read {
				if next := q.front(&anyDevice, Write); loads >= loadShare*(stores+next.len) {
					t.Fatalf("a load starts although %d bytes of loads pay for %d + %d of stores", loads, stores, next.len)
				}
				loads += p.len
			}
			if both && p.dir == Write {
				stores += p.len
				if loadShare*stores > loads {
					t.Fatalf("%d bytes of stores started after %d of loads", stores, loads)
				}
			}
			if both && loads > loadShare*(stores+largest)+largest {
				t.Fatalf("stores starve: %d bytes of loads, %d of stores", loads, stores)
			}
			q.take(p)
		}
	})
}

func TestQueueTakesEachOpOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		seen := map[*batch]map[int]bool{}
		add := func() {
			b := batchOf(rapid.StringOfN(rapid.RuneFrom([]rune("rw")), 1, 20, -1).Draw(t, "dirs"), oneByte)
			seen[b] = map[int]bool{}
			q.add(b)
		}
		take := func() {
			p, ok := q.peek(&anyDevice)
			if !ok {
				return
			}
			q.take(p)
			if seen[p.b][p.i] {
				t.Fatalf("op %d was taken twice", p.i)
			}
			if p.op().Dir != p.dir {
				t.Fatalf("op %d was taken as a %s", p.i, p.dir)
			}
			seen[p.b][p.i] = true
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				add()
			} else {
				take()
			}
		}
		for q.ops > 0 {
			take()
		}
		for b, taken := range seen {
			if len(taken) != len(b.ops) {
				t.Fatalf("%d of %d ops of a batch were taken", len(taken), len(b.ops))
			}
		}
	})
}
