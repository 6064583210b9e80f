// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// field is one key of a section.
type field struct {
	key   string
	index int
	typ   reflect.Type
}

// fieldsOf lists the keys of a section in the order of the struct.
func fieldsOf(t reflect.Type) []field {
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		out = append(out, field{key: f.Tag.Get("mapstructure"), index: i, typ: f.Type})
	}
	return out
}

// parseScalar reads text as a value of type t.
func parseScalar(t reflect.Type, text string) (any, error) {
	switch t {
	case reflect.TypeFor[Size]():
		return ParseSize(text)
	case reflect.TypeFor[AutoSize]():
		return parseAutoSize(text)
	case reflect.TypeFor[Mode]():
		return parseMode(text)
	case reflect.TypeFor[time.Duration]():
		return parseDuration(text)
	}
	switch t.Kind() {
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, wantError{text, "a whole number"}
		}
		return n, nil
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, wantError{text, "a number"}
		}
		return x, nil
	}
	return text, nil
}

type wantError struct{ text, want string }

func (e wantError) Error() string { return strconv.Quote(e.text) + " is not " + e.want }

// hook is viper's decode hook: text becomes the type of its field, and the
// elements of slabs and namespaces get their defaults.
func hook(from, to reflect.Type, data any) (any, error) {
	switch {
	case from.Kind() == reflect.String && to.Kind() != reflect.String:
		return parseScalar(to, data.(string))
	case from.Kind() == reflect.Map && to == reflect.TypeFor[Slab]():
		return withDefaults(data.(map[string]any), reflect.ValueOf(DefaultSlab())), nil
	case from.Kind() == reflect.Map && to == reflect.TypeFor[Namespace]():
		return withDefaults(data.(map[string]any), reflect.ValueOf(DefaultNamespace())), nil
	}
	return data, nil
}

// withDefaults returns m and what it lacks of the section def.
func withDefaults(m map[string]any, def reflect.Value) map[string]any {
	out := make(map[string]any, def.NumField())
	for _, f := range fieldsOf(def.Type()) {
		given, ok := m[f.key]
		sub, isMap := given.(map[string]any)
		switch {
		case f.typ.Kind() == reflect.Struct && (isMap || !ok):
			out[f.key] = withDefaults(sub, def.Field(f.index))
		case ok:
			out[f.key] = given
		default:
			out[f.key] = def.Field(f.index).Interface()
		}
	}
	return out
}

// leaf is a key that is no section: a scalar or a list.
type leaf struct {
	path  string
	typ   reflect.Type
	value any // in the Config that leaves was called for
}

// env returns the variable that sets the leaf.
func (l leaf) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(l.path, ".", "_"))
}

// leaves lists every key of v that is no section.
func leaves(prefix string, v reflect.Value) []leaf {
	var out []leaf
	for _, f := range fieldsOf(v.Type()) {
		path, fv := joinPath(prefix, f.key), v.Field(f.index)
		if f.typ.Kind() == reflect.Struct {
			out = append(out, leaves(path, fv)...)
			continue
		}
		out = append(out, leaf{path: path, typ: f.typ, value: fv.Interface()})
	}
	return out
}

func joinPath(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}
