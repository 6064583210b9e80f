// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"slices"
	"sort"
)

// NamespaceInfo is a namespace and what it uses, in bytes of slots.
type NamespaceInfo struct {
	Namespace
	Entries, Used, Pinned int64
	// Served is false for one that has left the configuration file, or that only
	// rows know: its entries are kept, and nobody reaches them.
	Served     bool
	FromConfig bool // the configuration file names it: it cannot be deleted
}

// Namespaces lists all namespaces by name, also those that are not served.
func (s *Store) Namespaces() []NamespaceInfo {
	names := *s.names.Load()
	all := make([]NamespaceInfo, 0, len(names))
	h := s.lock(lockReport)
	for _, sp := range names {
		all = append(all, sp.infoLocked())
	}
	s.unlock(h)
	for i := range all {
		all[i].Slabs = slices.Clone(all[i].Slabs)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// Namespace returns one namespace, served or not, or ErrNamespace.
func (s *Store) Namespace(name string) (NamespaceInfo, error) {
	sp := s.named(name)
	if sp == nil {
		return NamespaceInfo{}, fmt.Errorf("%w %q", ErrNamespace, name)
	}
	return s.info(sp), nil
}

func (s *Store) info(sp *space) NamespaceInfo {
	h := s.lock(lockReport)
	i := sp.infoLocked()
	s.unlock(h)
	i.Slabs = slices.Clone(i.Slabs)
	return i
}

// infoLocked is called under the pin lock. The list of slabs is the settings'.
func (sp *space) infoLocked() NamespaceInfo {
	set := sp.settings()
	return NamespaceInfo{
		Namespace: Namespace{Name: sp.name, Slabs: set.slabs, Quota: set.quota, TTL: set.ttl, Fingerprint: set.fingerprint},
		Entries:   sp.entries, Used: sp.used, Pinned: sp.pinned, Served: set.served, FromConfig: set.inFile,
	}
}

// PutNamespace makes a namespace, or gives one all of n's settings; created tells
// which. One that was not served is again, with its entries. The change is
// durable before it acts and before this returns. A quota may be lowered below
// what is used: stores then answer OverQuota. New entries go to the slabs listed,
// those that are elsewhere stay there.
//
// Errors: *SettingError; ErrFingerprint for another fingerprint than the one set
// while there are entries; ErrOutcomeUnknown if ctx ended when the change was on
// its way already, ctx's own error if it was not; ErrUnavailable.
func (s *Store) PutNamespace(ctx context.Context, n Namespace) (info NamespaceInfo, created bool, err error) {
	return s.UpdateNamespace(ctx, n.Name, func(old *Namespace) { *old = n })
}

// UpdateNamespace is PutNamespace for who changes single settings: edit is given
// those in force, or of a new namespace the zero ones, and no other change comes
// between. It must not change the name.
func (s *Store) UpdateNamespace(ctx context.Context, name string, edit func(*Namespace)) (info NamespaceInfo, created bool, err error) {
	c, err := s.change(ctx, func() (changed, error) { return s.put(name, edit) })
	return c.info, c.created, err
}

// changed is what became of a namespace.
type changed struct {
	info    NamespaceInfo
	created bool
}

// change runs fn, one change of namespaces at a time. A caller whose context ends
// may leave; fn goes on: what may be durable by then has to act.
func (s *Store) change(ctx context.Context, fn func() (changed, error)) (changed, error) {
	if err := s.begin(); err != nil {
		return changed{}, err
	}
	if err := s.turn(ctx, s.changing); err != nil {
		s.work.Done()
		return changed{}, err
	}
	type answer struct {
		changed
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer s.work.Done()
		defer func() { <-s.changing }()
		c, err := fn()
		done <- answer{c, err}
	}()
	select {
	case a := <-done:
		return a.changed, a.err
	case <-ctx.Done():
		return changed{}, ErrOutcomeUnknown
	}
}

// turn waits for the one place in a turnstile.
func (s *Store) turn(ctx context.Context, turnstile chan struct{}) error {
	if ctx.Err() == nil {
		select {
		case turnstile <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("no turn came in time, nothing was done: %w", context.Cause(ctx))
}

// put is PutNamespace in its turn.
func (s *Store) put(name string, edit func(*Namespace)) (changed, error) {
	sp, old := s.named(name), &settings{}
	if sp != nil {
		old = sp.settings()
	} else if err := s.checkNew(name); err != nil {
		return changed{}, err
	}
	n := old.namespace(name)
	edit(&n)
	n.Name = name
	volumes, err := s.checkNamespace(n)
	if err != nil {
		return changed{}, err
	}
	if sp != nil && old.fingerprint != "" && n.Fingerprint != old.fingerprint {
		if err := s.refuseFingerprint(sp, old.fingerprint, n.Fingerprint); err != nil {
			return changed{}, err
		}
		// Nor may entries of that model come back with a slab that is away.
		if err := s.dropAway(context.Background(), name); err != nil {
			return changed{}, err
		}
	}
	set := old.with(n, volumes)
	set.served = true
	if !set.inFile {
		set.seed = 0 // from now on it is kept alive by this record, not by the file
	}
	if err := s.recordNames([]nameRow{{name, set.record()}}); err != nil {
		return changed{}, err
	}
	if sp != nil {
		s.use(sp, set)
	} else if err := s.addSpaces(map[string]*settings{name: set}); err != nil {
		return changed{}, err
	}
	return changed{s.info(s.named(name)), !old.served}, nil
}

// refuseFingerprint returns why a namespace cannot get another fingerprint: what
// it holds, or is about to, was made by another model.
func (s *Store) refuseFingerprint(sp *space, has, wants string) error {
	h := s.lock(lockSettings)
	used, entries := sp.used, sp.entries
	s.unlock(h)
	if used == 0 && entries == 0 {
		return nil
	}
	return fmt.Errorf("%w: namespace %q holds %d entries of model %q, not %q: use another namespace, or clear this one", ErrFingerprint, sp.name, entries, has, wants)
}

// recordNames makes changes of records durable.
func (s *Store) recordNames(rows []nameRow) error {
	if len(rows) == 0 {
		return nil
	}
	return s.commits.wait(context.Background(), s.commits.enqueue(group{sync: true, names: rows}))
}

// DeleteNamespace deletes a namespace that is empty: without entries, and without
// slots that are being written or deleted. Durable when it returns.
//
// Errors: ErrNamespace; ErrFromConfig; ErrNotEmpty; ErrOutcomeUnknown and
// ErrUnavailable as for PutNamespace. A store that had begun and has not claimed
// slots yet ends with an error.
func (s *Store) DeleteNamespace(ctx context.Context, name string) error {
	_, err := s.change(ctx, func() (changed, error) { return changed{}, s.deleteNamespace(name) })
	return err
}

// deleteNamespace is DeleteNamespace in its turn.
func (s *Store) deleteNamespace(name string) error {
	sp := s.named(name)
	if sp == nil {
		return fmt.Errorf("%w %q", ErrNamespace, name)
	}
	if sp.settings().inFile {
		return fmt.Errorf("%w: take %q out of the file and reload it first", ErrFromConfig, name)
	}
	names := s.copyNames()
	delete(names, name)
	if err := s.takeOut(sp, names); err != nil {
		return err
	}
	// The log has the end of the record behind that of the last entries.
	err := s.dropAway(context.Background(), name)
	if err == nil {
		err = s.recordNames([]nameRow{{name: name}})
	}
	if err != nil {
		return fmt.Errorf("namespace %q is out of service, and may be there again after the restart: %w", name, err)
	}
	return nil
}

// takeOut ends a namespace if it is empty, in one section of the pin lock.
func (s *Store) takeOut(sp *space, names map[string]*space) error {
	h := s.lock(lockSettings)
	defer s.unlock(h)
	if sp.used > 0 || sp.entries > 0 {
		what := "clear it first"
		switch {
		case sp.entries == 0:
			what = "these are being written, read or deleted, try again when that has ended"
		case !sp.settings().served:
			what = "it is not served, so set it (namespace set, PUT) and clear it first"
		}
		return fmt.Errorf("%w: %q has %d entries and %d bytes of slots: %s", ErrNotEmpty, sp.name, sp.entries, sp.used, what)
	}
	for l := range sp.leases { // what they pinned was removed by force
		_, stale := s.endLeaseLocked(l)
		s.metrics.stalePins.Add(float64(stale))
	}
	sp.gone = true
	s.vacant = append(s.vacant, sp.num)
	s.names.Store(&names)
	return nil
}
