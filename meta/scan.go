// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Scan calls fn for the rows of a slab whose head slot lies in [from, to), in
// slot order; to == 0 is the end. err tells that this one row is undecodable; a
// false stops. The view is the moment of the call (H26), and it keeps deleted
// files on disk while it lasts, so fn should be quick. Disjoint ranges may be
// scanned at the same time. What fn gets is its own to keep; it costs one
// allocation for the key and one for further slots.
func (db *DB) Scan(inc Incarnation, from, to uint32, fn func(head uint32, r Row, err error) bool) error {
	lo, hi := slotBounds(prefixRow, inc, from, to)
	var row Row
	return db.iterate("scan rows of "+inc.String(), lo, hi, func(key, value []byte) (bool, error) {
		head, ok := slotOf(key)
		if !ok {
			return fn(0, Row{}, fmt.Errorf("%w: key of %d bytes", ErrRow, len(key))), nil
		}
		if err := decodeRow(&row, value); err != nil {
			return fn(head, Row{}, err), nil
		}
		return fn(head, row, nil), nil
	})
}

// Get returns the row of the entry that starts in slot head.
func (db *DB) Get(inc Incarnation, head uint32) (Row, bool, error) {
	k := makeSlotKey(prefixRow, inc, head)
	var row Row
	ok, err := db.get(k[:], func(value []byte) error { return decodeRow(&row, value) })
	if err != nil {
		return Row{}, false, fmt.Errorf("row of slot %d of %v: %w", head, inc, err)
	}
	return row, ok, nil
}

// Quarantined calls fn for each quarantined slot of a slab, in slot order.
func (db *DB) Quarantined(inc Incarnation, fn func(slot uint32, reason string)) error {
	lo, hi := slotBounds(prefixQuarantine, inc, 0, 0)
	return db.iterate("scan quarantine of "+inc.String(), lo, hi, func(key, value []byte) (bool, error) {
		slot, ok := slotOf(key)
		if !ok {
			return false, fmt.Errorf("%w: key of %d bytes", ErrRow, len(key))
		}
		reason, err := decodeValue(value)
		if err != nil {
			return false, err
		}
		fn(slot, string(reason))
		return true, nil
	})
}

// Mount returns a slab's mount number; ok is false for a slab never mounted here.
func (db *DB) Mount(inc Incarnation) (n uint64, ok bool, err error) {
	ok, err = db.get(mountKey(inc), func(value []byte) error {
		n, err = decodeNumber(value)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("mount number of %v: %w", inc, err)
	}
	return n, ok, nil
}

// Incarnations lists the slabs that have a mount number, in byte order.
func (db *DB) Incarnations() ([]Incarnation, error) {
	var all []Incarnation
	lo := []byte(prefixMount)
	err := db.iterate("scan mount numbers", lo, successor(lo), func(key, _ []byte) (bool, error) {
		if len(key) != mountLen {
			return false, fmt.Errorf("%w: key of %d bytes", ErrRow, len(key))
		}
		all = append(all, Incarnation(key[len(prefixMount):]))
		return true, nil
	})
	return all, err
}

// get calls fn with the value of key, if there is one; the bytes are Pebble's.
func (db *DB) get(key []byte, fn func(value []byte) error) (bool, error) {
	if err := db.fail.err(); err != nil {
		return false, err
	}
	value, closer, err := db.pb.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, db.fail.err()
	}
	if err != nil {
		return false, err
	}
	err = errors.Join(fn(value), closer.Close(), db.fail.err())
	return err == nil, err
}

// iterate calls fn in key order; the bytes are valid during the call only. An
// answer from after a failure may lack what a dreamt flush took away, so it is
// refused.
func (db *DB) iterate(what string, lower, upper []byte, fn func(key, value []byte) (bool, error)) error {
	if err := db.fail.err(); err != nil {
		return err
	}
	err := db.walk(lower, upper, fn)
	if err := errors.Join(err, db.fail.err()); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (db *DB) walk(lower, upper []byte, fn func(key, value []byte) (bool, error)) (err error) {
	it, err := db.pb.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }() // Close repeats a read error
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if more, err := fn(it.Key(), value); err != nil || !more {
			return err
		}
	}
	return nil
}
