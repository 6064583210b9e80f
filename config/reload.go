// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
)

// Change is a setting that has another value than before.
type Change struct {
	Path     string // as in slabs[0].workers; of a list of another length the list's
	Was, Now string
}

// Reloaded is what becomes of a running configuration.
type Reloaded struct {
	Config  *Config
	Applied []Change // what Config has that the running one has not
	Restart []Change // what it would have, but only after a restart
}

// Reload returns what a daemon that runs with c runs with after it has read
// found: c, and of found the namespaces, the watermarks, the files of tokens and
// certificates and the log level. The error, an *Error, is of the two put
// together: found may be right by itself and wrong beside what stays.
func (c *Config) Reload(found *Config) (Reloaded, error) {
	now := *c
	now.Namespaces = c.reloadNamespaces(found.Namespaces)
	now.Eviction = found.Eviction
	now.Auth = found.Auth
	now.Log.Level = found.Log.Level
	if (c.TLS.CertFile == "") == (found.TLS.CertFile == "") { // whether there is TLS at all is the listeners' business
		now.TLS = found.TLS
	}
	if err := now.Validate(); err != nil {
		return Reloaded{}, err
	}
	return Reloaded{Config: &now, Applied: differences(c, &now), Restart: differences(&now, found)}, nil
}

// reloadNamespaces returns the namespaces of found, each with its segment and
// admission as they are: those are made at the start.
func (c *Config) reloadNamespaces(found []Namespace) []Namespace {
	now := slices.Clone(found)
	for i := range now {
		was := DefaultNamespace()
		if at := slices.IndexFunc(c.Namespaces, func(n Namespace) bool { return n.Name == now[i].Name }); at >= 0 {
			was = c.Namespaces[at]
		}
		now[i].MinHits, now[i].Segment = was.MinHits, was.Segment
	}
	return now
}

// differences lists where b differs from a: in lists of the same length by their
// elements' keys.
func differences(a, b *Config) []Change {
	var out []Change
	was, now := leaves("", reflect.ValueOf(a).Elem()), leaves("", reflect.ValueOf(b).Elem())
	for i, l := range was {
		out = append(out, differ(l.path, reflect.ValueOf(l.value), reflect.ValueOf(now[i].value))...)
	}
	return out
}

func differ(path string, a, b reflect.Value) []Change {
	switch {
	case reflect.DeepEqual(a.Interface(), b.Interface()):
		return nil
	case a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0:
		return nil // nil, or an empty list
	case a.Kind() != reflect.Slice || a.Len() != b.Len() || a.Type().Elem().Kind() != reflect.Struct:
		return []Change{{path, text(a), text(b)}}
	}
	var out []Change
	for i := range a.Len() {
		for _, f := range fieldsOf(a.Type().Elem()) {
			at := fmt.Sprintf("%s[%d].%s", path, i, f.key)
			out = append(out, differ(at, a.Index(i).Field(f.index), b.Index(i).Field(f.index))...)
		}
	}
	return out
}

// text returns a value for the log: of a list of sections the names.
func text(v reflect.Value) string {
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.Struct {
		return fmt.Sprint(v.Interface())
	}
	names := make([]string, v.Len())
	for i := range names {
		names[i] = v.Index(i).FieldByName("Name").String()
	}
	return fmt.Sprint(names)
}
