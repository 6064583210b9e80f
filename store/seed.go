// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/rawblockd/rawblockd/meta"
)

// The configuration file seeds namespaces, and they are changed at run time too.
// The last change wins: a record keeps the hash of the section that it was last
// taken from, and the file is taken again only when that has changed since. A
// namespace that has left the file is kept, and not served.

// nameRow is a change of one namespace's record; rec nil takes it away.
type nameRow struct {
	name string
	rec  *meta.NamespaceRecord
}

// seedHash stands for a section of the file. It is durable, so what it says of a
// section must never change: a setting that a later release brings takes part
// only where it is not the default.
func seedHash(n Namespace) uint64 {
	h := fnv.New64a() // writing to it never fails
	for _, name := range slices.Sorted(slices.Values(n.Slabs)) {
		fmt.Fprintf(h, "slab %q\n", name)
	}
	if n.Quota != 0 {
		fmt.Fprintf(h, "quota %d\n", n.Quota)
	}
	if n.TTL != 0 {
		fmt.Fprintf(h, "ttl %d\n", n.TTL)
	}
	return max(h.Sum64(), 1)
}

// seeded merges a section of the file with what is known of the namespace; old is
// nil if nothing is. changed says that the record has to be written.
func (s *Store) seeded(n Namespace, old *settings) (set *settings, changed bool, err error) {
	volumes, err := s.checkNamespace(n)
	if err != nil {
		return nil, false, fmt.Errorf("namespace %q: %w", n.Name, err)
	}
	seed := seedHash(n)
	if old == nil {
		old = &settings{}
	}
	if old.stored && old.seed == seed {
		next := *old
		next.inFile, next.served = true, true
		return &next, false, nil
	}
	if old.stored {
		n.Fingerprint = old.fingerprint
	}
	set = old.with(n, volumes)
	set.seed, set.inFile, set.served = seed, true, true
	return set, true, nil
}

// merged applies all sections of the file to what is known.
func (s *Store) merged(seeds []Namespace, known map[string]*settings) (all map[string]*settings, rows []nameRow, err error) {
	if len(seeds) == 0 {
		return nil, nil, errors.New("there are no namespaces: the file would take all out of service")
	}
	all = map[string]*settings{}
	for _, n := range seeds {
		if all[n.Name] != nil {
			return nil, nil, fmt.Errorf("namespace %q: %w", n.Name, &SettingError{"name", "it is there twice"})
		}
		set, changed, err := s.seeded(n, known[n.Name])
		if err != nil {
			return nil, nil, err
		}
		all[n.Name] = set
		if changed {
			rows = append(rows, nameRow{n.Name, set.record()})
		}
	}
	for name, old := range known {
		if all[name] != nil {
			continue
		}
		kept := *old
		// Without a seed it was never in the file: it was made at run time.
		kept.inFile, kept.served = false, old.stored && old.seed == 0
		all[name] = &kept
	}
	if len(all) > math.MaxUint16 {
		return nil, nil, fmt.Errorf("%d namespaces are more than there can be (%d)", len(all), math.MaxUint16)
	}
	return all, rows, nil
}

// loadNamespaces registers the namespaces of metadata and file. What it returns
// must be durable before anything is served. Only Open calls it.
func (s *Store) loadNamespaces() ([]nameRow, error) {
	known := map[string]*settings{}
	var stop error
	err := s.o.Meta.Namespaces(func(name string, r meta.NamespaceRecord, err error) {
		switch {
		case errors.Is(err, meta.ErrIncompat):
			stop = errors.Join(stop, fmt.Errorf("settings of namespace %q: %w: start the release that wrote them", name, err))
		case err != nil:
			s.o.Log.Error("settings of a namespace are damaged and not used", "namespace", name, "error", err)
		default:
			known[name] = s.restored(name, &r)
		}
	})
	if err := errors.Join(stop, err); err != nil {
		return nil, err
	}
	all, rows, err := s.merged(s.o.Namespaces, known)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !all[name].served {
			s.o.Log.Warn("namespace has left the configuration file: its entries are kept and not served", "namespace", name)
		}
	}
	return rows, s.addSpaces(all)
}

// restored makes settings of a record. A slab that it names and that is not
// configured any more is left out, and comes back when it is configured again.
func (s *Store) restored(name string, r *meta.NamespaceRecord) *settings {
	volumes, unknown := s.resolve(r.Slabs)
	if len(unknown) > 0 {
		s.o.Log.Warn("namespace names slabs that are not configured", "namespace", name, "slabs", unknown)
	}
	return &settings{
		slabs: r.Slabs, volumes: volumes, quota: r.Quota, ttl: r.TTL, fingerprint: r.Fingerprint,
		seed: r.Seed, stored: true, later: r.Features,
	}
}

// Reload takes the file's namespaces anew: seeds are all of them. New ones are
// made, those whose section has changed take the file's settings, those that have
// left the file are kept and not served, and the rest stays as it is. With an
// error nothing has changed, unless it is ErrOutcomeUnknown.
func (s *Store) Reload(ctx context.Context, seeds []Namespace) error {
	_, err := s.change(ctx, func() (changed, error) { return changed{}, s.reload(seeds) })
	return err
}

// reload is Reload in its turn.
func (s *Store) reload(seeds []Namespace) error {
	known := map[string]*settings{}
	for name, sp := range *s.names.Load() {
		known[name] = sp.settings()
	}
	all, rows, err := s.merged(seeds, known)
	if err != nil {
		return err
	}
	if err := s.recordNames(rows); err != nil {
		return err
	}
	for name, sp := range *s.names.Load() {
		s.use(sp, all[name])
		delete(all, name)
	}
	return s.addSpaces(all)
}
