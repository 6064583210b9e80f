// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A waiter is refused when nothing has moved for its time, and not before: what
// stirs, and what comes back to others, says that its turn will come.
func TestArenaGetWhile(t *testing.T) {
	const still = 5 * time.Second
	for name, c := range map[string]struct {
		stirs []time.Duration // after the beginning
		want  time.Duration   // when it is refused
	}{
		"nothing moves":         {nil, still},
		"moved before":          {[]time.Duration{-time.Second}, still},
		"moves once":            {[]time.Duration{3 * time.Second}, 8 * time.Second},
		"moves at the last":     {[]time.Duration{still - 1}, 2*still - 1},
		"moves again and again": {[]time.Duration{time.Second, 2 * time.Second, 6 * time.Second, 10 * time.Second}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newTestArena(t, 2*PieceSize)
				all := mustGet(t, a, 2*PieceSize)
				defer all.Release()
				time.Sleep(time.Minute)
				for _, d := range c.stirs {
					if d < 0 {
						a.Stir()
						time.Sleep(-d)
						continue
					}
					time.AfterFunc(d, a.Stir)
				}
				began := time.Now()
				buf, err := a.GetWhile(t.Context(), PieceSize, still)
				if took := time.Since(began); buf != nil || !errors.Is(err, ErrStill) || took != c.want {
					t.Errorf("got %v, %v after %v, want to be refused after %v", buf, err, took, c.want)
				}
				if n := a.Waiting(); n != 0 {
					t.Errorf("%d still wait", n)
				}
			})
		})
	}
}

// What others give back counts as movement, also if it is not enough.
func TestArenaReleaseStirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestArena(t, 3*PieceSize)
		one, two := mustGet(t, a, PieceSize), mustGet(t, a, 2*PieceSize)
		time.AfterFunc(4*time.Second, one.Release)
		time.AfterFunc(8*time.Second, two.Release)
		buf, err := a.GetWhile(t.Context(), 3*PieceSize, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		buf.Release()
	})
}
