// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// Load reads the file at path, then the environment, and validates the whole.
func Load(path string) (*Config, error) {
	c, _, err := LoadSources(path)
	return c, err
}

// Check looks for faults in what a configuration names, such as files. It gets
// one that was decoded and may have faults of its own, and its faults are
// reported with those.
type Check func(*Config) []Fault

// LoadSources is Load with more to check, and says where each value comes from.
func LoadSources(path string, more ...Check) (*Config, Sources, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	return merge(Default(), path, text, os.Environ(), more...)
}

// Overlay applies the environment to a configuration that has no file, and
// validates the whole.
func Overlay(base *Config) (*Config, error) {
	c, _, err := OverlaySources(base)
	return c, err
}

// OverlaySources is Overlay with more to check, and says where each value comes
// from. A configuration that could be read and has faults is returned with them.
func OverlaySources(base *Config, more ...Check) (*Config, Sources, error) {
	return merge(base, "", nil, os.Environ(), more...)
}

// merge puts base, the file's text and the environment together, in rising
// order of precedence.
func merge(base *Config, source string, text []byte, environ []string, more ...Check) (*Config, Sources, error) {
	w := &walker{file: source, lines: map[string]int{}, given: Sources{}}
	c, fromEnv, err := w.decode(base, text, environ)
	if err != nil {
		return nil, nil, err
	}
	c.fillNamespaces()
	found := c.faults()
	for _, check := range more {
		found = append(found, check(c)...)
	}
	locate(found, w.lines, fromEnv)
	if len(w.faults) > 0 { // a part could not be read; the rest is judged all the same
		return nil, nil, w.join(found).err(source)
	}
	return c, w.given, found.err(source)
}

// decode reads what is given without judging it. What cannot be read is in w.faults
// and has its default. It returns path → variable as well, of the keys that a variable
// gave.
func (w *walker) decode(base *Config, text []byte, environ []string) (*Config, map[string]string, error) {
	source := w.file
	file, err := w.document(text)
	if err != nil {
		return nil, nil, err
	}
	v := viper.New()
	all := leaves("", reflect.ValueOf(base).Elem())
	for _, l := range all {
		v.SetDefault(l.path, l.value)
	}
	if err := v.MergeConfigMap(file); err != nil {
		return nil, nil, fmt.Errorf("configuration %s: %w", source, err)
	}
	fromEnv := w.environment(all, environ, v.Set)
	c := &Config{}
	if err := v.UnmarshalExact(c, viper.DecodeHook(hook)); err != nil {
		return nil, nil, fmt.Errorf("configuration %s: %w", source, err)
	}
	return c, fromEnv, nil
}

// document parses and walks one YAML document; an empty one has no keys. An error
// says that there is nothing to go on with.
func (w *walker) document(text []byte) (map[string]any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return map[string]any{}, nil
	case err != nil:
		return nil, faults{syntaxFault(text, err)}.err(w.file)
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		w.fault(&more, "", "a second YAML document begins here: want one")
	} else if !errors.Is(err, io.EOF) {
		return nil, faults{syntaxFault(text, err)}.err(w.file)
	}
	v, ok := w.value(doc.Content[0], "", reflect.TypeFor[Config]())
	if !ok {
		return map[string]any{}, w.faults.err(w.file)
	}
	return v.(map[string]any), nil
}

// locate gives each fault the variable or the line that its path, or the
// nearest section around it, came from.
func locate(fs faults, lines map[string]int, env map[string]string) {
	for i := range fs {
		fs[i].Env = nearest(env, fs[i].Path)
		if fs[i].Env == "" {
			fs[i].Line = nearest(lines, fs[i].Path)
		}
	}
}

func nearest[V any](m map[string]V, path string) V {
	for ; path != ""; path = parentPath(path) {
		if v, ok := m[path]; ok {
			return v
		}
	}
	var none V
	return none
}

func parentPath(p string) string {
	return p[:max(strings.LastIndexByte(p, '.'), strings.LastIndexByte(p, '['), 0)]
}
