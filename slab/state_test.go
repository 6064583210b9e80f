// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// panics reports whether fn panics.
func panics(fn func()) (did bool) {
	defer func() { did = recover() != nil }()
	fn()
	return false
}

func TestTransitions(t *testing.T) {
	want := map[string]bool{
		"free reserved": true, "reserved used": true, "used deleting": true, "deleting retired": true,
		"retired free": true, "reserved free": true, "deleting free": true,
	}
	for from := range states {
		want[from.String()+" quarantined"] = true
		for to := range states {
			if name := from.String() + " " + to.String(); allowed(from, to) != want[name] {
				t.Errorf("%s: got %v, want %v", name, allowed(from, to), want[name])
			}
		}
	}
}

func TestRestore(t *testing.T) {
	s := newSlots(10)
	s.quarantine([]uint32{3})
	if err := s.restore([]uint32{1, 2, 9}); err != nil {
		t.Fatalf("restore: %v", err)
	}
	for _, tc := range []struct {
		slots []uint32
		want  error
	}{
		{[]uint32{4, 10}, ErrOutOfRange},
		{[]uint32{4, 2}, ErrTaken},
		{[]uint32{4, 4}, ErrTaken},
		{[]uint32{4, 3}, ErrTaken},
	} {
		if err := s.restore(tc.slots); !errors.Is(err, tc.want) {
			t.Errorf("restore %v: got %v, want %v", tc.slots, err, tc.want)
		}
		if got := s.get(4); got != Unknown {
			t.Errorf("restore %v left slot 4 %v", tc.slots, got)
		}
	}
	if _, ok := s.reserve(1); ok {
		t.Error("reserve before ready")
	}
	s.ready()
	if got, want := s.snapshot(), (Counts{Free: 6, Used: 3, Quarantined: 1, Total: 10}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := s.restore([]uint32{4}); !errors.Is(err, ErrTaken) {
		t.Errorf("restore after ready: got %v, want ErrTaken", err)
	}
	if _, ok := s.reserve(7); ok {
		t.Error("reserved more than there is")
	}
	got, ok := s.reserve(6)
	if !ok || len(got) != 6 {
		t.Fatalf("reserve: got %v, %v", got, ok)
	}
	if slices.Contains(got, 3) {
		t.Error("a quarantined slot was handed out")
	}
}

func TestQuarantineTakesFreeSlotsOffTheList(t *testing.T) {
	s := newSlots(3)
	s.ready()
	s.quarantine([]uint32{1})
	if got, ok := s.reserve(2); !ok || slices.Contains(got, 1) {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := s.reserve(1); ok {
		t.Error("the quarantined slot was handed out")
	}
}

// TestStatesModel compares every step with a plain model, forbidden steps included.
func TestStatesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Uint32Range(1, 40).Draw(t, "total")
		s := newSlots(total)
		model := make([]State, total)
		drawState := rapid.Custom(func(t *rapid.T) State { return State(rapid.IntRange(0, int(states)-1).Draw(t, "state")) })
		t.Repeat(map[string]func(*rapid.T){
			"restore": func(t *rapid.T) {
				slot := rapid.Uint32Range(0, total).Draw(t, "slot")
				err := s.restore([]uint32{slot})
				if ok := slot < total && model[slot] == Unknown; ok != (err == nil) {
					t.Fatalf("restore %d: %v", slot, err)
				} else if ok {
					model[slot] = Used
				}
			},
			"ready": func(t *rapid.T) {
				s.ready()
				for i, st := range model {
					if st == Unknown {
						model[i] = Free
					}
				}
			},
			"reserve": func(t *rapid.T) {
				n := rapid.IntRange(0, int(total)).Draw(t, "n")
				got, ok := s.reserve(n)
				free := 0
				for _, st := range model {
					if st == Free {
						free++
					}
				}
				if ok != (n <= free) || ok && len(got) != n {
					t.Fatalf("reserve %d of %d: %v, %v", n, free, got, ok)
				}
				for _, slot := range got {
					if model[slot] != Free {
						t.Fatalf("slot %d was %v", slot, model[slot])
					}
					model[slot] = Reserved
				}
			},
			"move": func(t *rapid.T) {
				slot := rapid.Uint32Range(0, total-1).Draw(t, "slot")
				from, to := drawState.Draw(t, "from"), drawState.Draw(t, "to")
				want := model[slot] != from || !allowed(from, to)
				if got := panics(func() { s.move([]uint32{slot}, from, to) }); got != want {
					t.Fatalf("slot %d %v, move %v to %v: panic %v, want %v", slot, model[slot], from, to, got, want)
				}
				if !want {
					model[slot] = to
				}
			},
			"quarantine": func(t *rapid.T) {
				slot := rapid.Uint32Range(0, total-1).Draw(t, "slot")
				s.quarantine([]uint32{slot})
				model[slot] = Quarantined
			},
			"": func(t *rapid.T) {
				var want Counts
				fields := map[State]*uint32{
					Unknown: &want.Unknown, Free: &want.Free, Reserved: &want.Reserved, Used: &want.Used,
					Deleting: &want.Deleting, Retired: &want.Retired, Quarantined: &want.Quarantined,
				}
				for slot, st := range model {
					*fields[st]++
					want.Total++
					if got := s.get(uint32(slot)); got != st {
						t.Fatalf("slot %d is %v, want %v", slot, got, st)
					}
				}
				if got := s.snapshot(); got != want {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			},
		})
	})
}

func TestMoveOutOfRangePanics(t *testing.T) {
	s := newSlots(4)
	s.ready()
	for _, fn := range []func(){
		func() { s.move([]uint32{4}, Free, Reserved) },
		func() { s.quarantine([]uint32{4}) },
		func() { s.move([]uint32{0, 0}, Free, Reserved) },
	} {
		if !panics(fn) {
			t.Error("no panic")
		}
	}
}

func TestStateString(t *testing.T) {
	if got, want := fmt.Sprint(Retired, State(99)), "retired state(99)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
