// SPDX-License-Identifier: Apache-2.0

package api

import (
	"math"
	"slices"
)

// Namespace is one namespace: its settings, and what it uses.
type Namespace struct {
	Name        string   `json:"name"`
	Slabs       []string `json:"slabs"`  // names; empty: all there are
	Quota       int64    `json:"quota"`  // bytes of slots; 0: no limit of its own
	TTLMS       int64    `json:"ttl_ms"` // of entries stored without one; 0: they stay
	Fingerprint string   `json:"fingerprint"`

	Entries     int64 `json:"entries"`
	SlotBytes   int64 `json:"slot_bytes"`   // slots × slot size, those being written and deleted included
	PinnedBytes int64 `json:"pinned_bytes"` // of them, what leases protect
	Served      bool  `json:"served"`       // false: kept from an earlier configuration, not reachable
	FromConfig  bool  `json:"from_config"`  // in the configuration file: it cannot be deleted here
}

// NamespacesResponse answers GET /v1/namespaces, by name.
type NamespacesResponse struct {
	Namespaces []Namespace `json:"namespaces"`
}

// NamespaceRequest is the body of PUT /v1/namespaces/{namespace}. What is nil
// keeps its value; of a new namespace it is the default: all slabs, no quota, no
// time to live, no fingerprint.
type NamespaceRequest struct {
	Slabs       *[]string `json:"slabs,omitempty"` // an empty list: all there are
	Quota       *int64    `json:"quota,omitempty"`
	TTLMS       *int64    `json:"ttl_ms,omitempty"`
	Fingerprint *string   `json:"fingerprint,omitempty"`
}

// PutNamespaceResponse answers PUT /v1/namespaces/{namespace}: the namespace as
// it is now.
type PutNamespaceResponse struct {
	Namespace
	Created bool `json:"created"`
}

// DeleteNamespaceResponse answers DELETE /v1/namespaces/{namespace}.
type DeleteNamespaceResponse struct {
	Name string `json:"name"`
}

// ClearRequest is the body of POST /v1/kv/{namespace}/clear.
type ClearRequest struct {
	Confirm    string `json:"confirm"` // the namespace's name, again
	DeadlineMS int64  `json:"deadline_ms,omitempty"`
}

// ClearResponse answers a clear.
type ClearResponse struct {
	Removed int `json:"removed"`
	Pinned  int `json:"pinned"` // entries that stay because leases protect them
}

// MaxFingerprintBytes is the longest fingerprint of a namespace.
const MaxFingerprintBytes = 1024

// maxSlabsNamed bounds the list of slabs of a namespace.
const maxSlabsNamed = 4096

// DecodeNamespace reads the body of PUT /v1/namespaces/{namespace}.
func DecodeNamespace(body []byte) (NamespaceRequest, error) {
	var r NamespaceRequest
	d := decoder{scanner: over(body)}
	err := d.whole(func(name string) error {
		switch name {
		case "slabs":
			return d.names(name, &r.Slabs)
		case "quota":
			return given(d.integer, name, 0, math.MaxInt64, &r.Quota)
		case "ttl_ms":
			return given(d.integer, name, 0, MaxMillis, &r.TTLMS)
		case "fingerprint":
			return d.fingerprint(name, &r.Fingerprint)
		}
		return unknown("", name)
	})
	return r, err
}

// DecodeClear reads the body of a clear of namespace.
func DecodeClear(body []byte, namespace string) (ClearRequest, error) {
	var r ClearRequest
	d := decoder{scanner: over(body)}
	err := d.whole(func(name string) error {
		switch name {
		case "confirm":
			return d.str(name, &r.Confirm)
		case "deadline_ms":
			return d.integer(name, 1, MaxMillis, &r.DeadlineMS)
		}
		return unknown("", name)
	})
	switch {
	case err != nil:
		return r, err
	case r.Confirm == "":
		return r, badField(CodeMissingField, "confirm", "name the namespace again to clear it")
	case r.Confirm != namespace:
		return r, badField(CodeInvalidField, "confirm", "%q is not the namespace of the path; nothing was removed", r.Confirm)
	}
	return r, nil
}

// whole reads a body that is one object.
func (d *decoder) whole(member func(name string) error) error {
	if err := d.object("", member); err != nil {
		return err
	}
	return d.end()
}

// given reads an optional number into dst, which stays nil for null.
func given(read func(field string, min, max int64, dst *int64) error, field string, min, max int64, dst **int64) error {
	v := int64(-1)
	if err := read(field, min, max, &v); err != nil || v == -1 {
		return err
	}
	*dst = &v
	return nil
}

func (d *decoder) fingerprint(field string, dst **string) error {
	if d.null() {
		return nil
	}
	var v string
	if err := d.str(field, &v); err != nil {
		return err
	}
	if len(v) > MaxFingerprintBytes {
		return badField(CodeInvalidField, field, "more than %d bytes", MaxFingerprintBytes)
	}
	*dst = &v
	return nil
}

// names reads an optional list of names, each of them once.
func (d *decoder) names(field string, dst **[]string) error {
	if d.null() {
		return nil
	}
	list := []string{}
	err := d.array(field, func() error {
		if len(list) == maxSlabsNamed {
			return badField(CodeInvalidField, field, "more than %d names", maxSlabsNamed)
		}
		var v string
		if err := d.str(field, &v); err != nil {
			return err
		}
		switch {
		case v == "":
			return badField(CodeInvalidField, field, "name %d is empty", len(list))
		case slices.Contains(list, v):
			return badField(CodeInvalidField, field, "%q is named twice", v)
		}
		list = append(list, v)
		return nil
	})
	*dst = &list
	return err
}
