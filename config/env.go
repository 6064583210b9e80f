// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const envPrefix = "RAWBLOCKD_"

// environment reads RAWBLOCKD_SECTION_KEY for scalars and, as YAML, for lists;
// set receives what it finds. It returns path → variable. A variable that
// begins with the name of a section but names no key is a fault, like an
// unknown key in the file.
func (w *walker) environment(all []leaf, environ []string, set func(path string, v any)) map[string]string {
	byName := make(map[string]leaf, len(all))
	for _, l := range all {
		byName[l.env()] = l
	}
	out := map[string]string{}
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(kv, "=")
		l, ok := byName[name]
		switch {
		case ok:
			out[l.path] = name
			w.variable(l, name, text, set)
		case looksOurs(name):
			w.faults = append(w.faults, Fault{Msg: "the environment sets $" + name + ", which names no key: unset it, or correct its name"})
		}
	}
	return out
}

func (w *walker) variable(l leaf, name, text string, set func(path string, v any)) {
	w.env = name
	defer func() { w.env = "" }()
	w.forget(l.path)
	if !utf8.ValidString(text) {
		w.fault(nil, l.path, "%q is not valid UTF-8", text)
		return
	}
	if l.typ.Kind() != reflect.Slice {
		if _, err := parseScalar(l.typ, text); err != nil {
			w.fault(nil, l.path, "%v", err)
			return
		}
		w.set(l.path, 0)
		set(l.path, text)
		return
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		w.fault(nil, l.path, "want a list as YAML: %v", err)
		return
	}
	switch {
	case len(doc.Content) == 0:
		w.set(l.path, 0)
		set(l.path, []any{})
		return
	case isNull(doc.Content[0]):
		w.fault(nil, l.path, "is null: write [] for an empty list, or unset the variable")
		return
	}
	if v, ok := w.value(doc.Content[0], l.path, l.typ); ok {
		set(l.path, v)
	}
}

// looksOurs reports whether a variable was meant for this package. Kubernetes
// makes variables of a service's name (RAWBLOCKD_SERVICE_HOST,
// RAWBLOCKD_META_PORT_9201_TCP): those are not ours.
func looksOurs(name string) bool {
	rest, ok := strings.CutPrefix(name, envPrefix)
	if !ok || strings.Contains(rest, "_SERVICE_") || strings.Contains(rest, "_PORT") {
		return false
	}
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		if strings.HasPrefix(rest, strings.ToUpper(f.key)+"_") {
			return true
		}
	}
	return false
}
