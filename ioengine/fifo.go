// SPDX-License-Identifier: Apache-2.0

package ioengine

// fifo is a queue that keeps its memory: room in front is used again when there is none
// behind, and as much of it that moving the rest costs a push no more than twice.
type fifo[T any] struct {
	items []T
	first int
}

func (q *fifo[T]) len() int { return len(q.items) - q.first }

// all returns what is queued, oldest first, until the next push or pop.
func (q *fifo[T]) all() []T { return q.items[q.first:] }

func (q *fifo[T]) push(item T) {
	if len(q.items) == cap(q.items) && q.first > 0 && q.first >= len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

// pop drops the n oldest.
func (q *fifo[T]) pop(n int) {
	clear(q.items[q.first : q.first+n])
	q.first += n
	if q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
}
