// SPDX-License-Identifier: Apache-2.0

package api

import (
	"math"
	"net/http"
)

// MaxMillis is the longest span a field in milliseconds may name: a year.
const MaxMillis = 365 * 24 * 60 * 60 * 1000

// DecodeLookup reads the body of a lookup of at most maxKeys keys.
func DecodeLookup(body []byte, maxKeys int) (LookupRequest, error) {
	var r LookupRequest
	d := decoder{scanner: over(body), max: maxKeys}
	err := d.batch(&r.Batch, func(name string) error {
		switch name {
		case "prefix":
			return d.boolean(name, &r.Prefix)
		case "lease":
			if d.null() {
				return nil
			}
			r.Lease = &LeaseRequest{}
			return d.object(name, func(sub string) error { return d.leaseField(name, sub, r.Lease) })
		}
		return unknown("", name)
	})
	return r, err
}

// DecodeLoad reads the body of a load whose answer is frames.
func DecodeLoad(body []byte, maxKeys int) (LoadRequest, error) {
	var r LoadRequest
	d := decoder{scanner: over(body), max: maxKeys}
	err := d.batch(&r.Batch, func(name string) error {
		switch name {
		case "into", "lengths", "allow_busy":
			return badField(CodeUnsupportedField, name,
				"client buffers are not offered by this server (see features in /v1/info); without the field the answer is frames")
		}
		return unknown("", name)
	})
	return r, err
}

// DecodeStore reads the JSON body of a store. A store in JSON names a client
// buffer, which this version does not offer: it always returns a *Problem,
// with the field at fault.
func DecodeStore(body []byte, maxKeys int) error {
	var r Batch
	d := decoder{scanner: over(body), max: maxKeys}
	err := d.batch(&r, func(name string) error {
		switch name {
		case "from":
			return badField(CodeUnsupportedField, name,
				"client buffers are not offered by this server (see features in /v1/info); send the payloads as frames: Content-Type %s", MediaFrames)
		case "overwrite", "force":
			var b bool
			return d.boolean(name, &b)
		case "ttl_ms":
			var n int64
			return d.integer(name, 0, MaxMillis, &n)
		case "after", "family":
			var s string
			return d.str(name, &s)
		}
		return unknown("", name)
	})
	if err != nil {
		return err
	}
	return badField(CodeMissingField, "from", "a store sends its payloads as frames: Content-Type %s", MediaFrames)
}

// DecodeRemove reads the body of a remove.
func DecodeRemove(body []byte, maxKeys int) (RemoveRequest, error) {
	var r RemoveRequest
	d := decoder{scanner: over(body), max: maxKeys}
	err := d.batch(&r.Batch, func(name string) error {
		if name == "force" {
			return d.boolean(name, &r.Force)
		}
		return unknown("", name)
	})
	return r, err
}

// DecodePin reads the body of a pin.
func DecodePin(body []byte, maxKeys int) (PinRequest, error) {
	var r PinRequest
	d := decoder{scanner: over(body), max: maxKeys}
	err := d.batch(&r.Batch, func(name string) error { return d.leaseField("", name, &r.LeaseRequest) })
	return r, err
}

// DecodeUnpin reads the body of an unpin.
func DecodeUnpin(body []byte, maxKeys int) (UnpinRequest, error) {
	var r UnpinRequest
	var b Batch
	d := decoder{scanner: over(body), max: maxKeys, keysOptional: true}
	err := d.batch(&b, func(name string) error {
		if name == "lease" {
			return d.str(name, &r.Lease)
		}
		return unknown("", name)
	})
	r.Namespace, r.Keys, r.DeadlineMS = b.Namespace, b.Keys, b.DeadlineMS
	if err == nil && r.Lease == "" {
		err = badField(CodeMissingField, "lease", "name the lease to release")
	}
	return r, err
}

// DecodeTouch reads the body of a touch.
func DecodeTouch(body []byte, maxKeys int) (TouchRequest, error) {
	var r TouchRequest
	d := decoder{scanner: over(body), max: maxKeys}
	err := d.batch(&r.Batch, func(name string) error {
		if name == "ttl_ms" {
			return d.integer(name, 0, MaxMillis, &r.TTLMS)
		}
		return unknown("", name)
	})
	return r, err
}

type decoder struct {
	scanner
	max          int
	keysOptional bool
}

// batch reads a whole body: the fields of Batch, and what other makes of the
// rest.
func (d *decoder) batch(r *Batch, other func(name string) error) error {
	err := d.object("", func(name string) error {
		switch name {
		case "namespace":
			return d.str(name, &r.Namespace)
		case "keys":
			return d.keys(&r.Keys)
		case "deadline_ms":
			return d.integer(name, 1, MaxMillis, &r.DeadlineMS)
		}
		return other(name)
	})
	if err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	if r.Namespace == "" {
		return MissingNamespace()
	}
	if r.Keys == nil && !d.keysOptional {
		return badField(CodeMissingField, "keys", "give a list of keys; it may be empty")
	}
	return nil
}

// keys reads the list of keys. One that is not Unicode becomes "", which is
// no key.
func (d *decoder) keys(dst *Keys) error {
	if d.null() {
		return nil
	}
	// A key takes at least three bytes ("",), most take far more.
	list := make(Keys, 0, min(d.max, (len(d.b)-d.i)/16))
	err := d.array("keys", func() error {
		if d.peek() != '"' {
			return badField(CodeInvalidField, "keys", "key %d is no string", len(list))
		}
		if len(list) == d.max {
			return TooManyKeys(d.max)
		}
		key, ok, err := d.text()
		if err != nil {
			return err
		}
		if !ok {
			key = ""
		}
		list = append(list, key)
		return nil
	})
	*dst = list
	return err
}

func (d *decoder) leaseField(path, name string, l *LeaseRequest) error {
	field := join(path, name)
	switch name {
	case "ttl_ms":
		return d.integer(field, 0, MaxMillis, &l.TTLMS)
	case "owner":
		if err := d.str(field, &l.Owner); err != nil {
			return err
		}
		if len(l.Owner) > MaxOwnerBytes {
			return badField(CodeInvalidField, field, "more than %d bytes", MaxOwnerBytes)
		}
		return nil
	}
	return unknown(path, name)
}

// MaxOwnerBytes is the longest owner label of a lease.
const MaxOwnerBytes = 256

func unknown(path, name string) *Problem {
	if len(name) > 100 {
		name = name[:100] + "…"
	}
	return badField(CodeUnknownField, join(path, name), "")
}

// MissingNamespace is the Problem of a request that names no namespace.
func MissingNamespace() *Problem {
	return badField(CodeMissingField, "namespace", "name the namespace the keys are in")
}

// TooManyKeys is the Problem of a batch of more than max keys.
func TooManyKeys(max int) *Problem {
	return NewProblem(http.StatusRequestEntityTooLarge, CodeTooManyKeys, "keys", "at most %d keys a request; send several", max)
}

// MaxJSONBody returns the size of the largest JSON body a batch of maxKeys
// keys needs: every key at its longest, written with \u escapes.
func MaxJSONBody(maxKeys int) int64 {
	n := int64(maxKeys)
	if n > (math.MaxInt64-1<<16)/(3*MaxKeyBytes+8) {
		return math.MaxInt64
	}
	return n*(3*MaxKeyBytes+8) + 1<<16
}
