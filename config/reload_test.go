// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func reload(t *testing.T, running, found string) Reloaded {
	t.Helper()
	r, err := mustLoad(t, running).Reload(mustLoad(t, found))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func paths(changes []Change) string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = fmt.Sprintf("%s %s→%s", c.Path, c.Was, c.Now)
	}
	return strings.Join(out, ", ")
}

func TestReload(t *testing.T) {
	const tls = "tls: {cert_file: /c, key_file: /k}\n"
	for _, tt := range []struct{ name, running, found, applied, restart string }{
		{"nothing", "", "", "", ""},
		{"the log level", "", "log: {level: debug}\n", "log.level info→debug", ""},
		{"the log format", "", "log: {level: debug, format: json}\n", "log.level info→debug", "log.format text→json"},
		{"tokens", "", "auth: {token_file: /t}\n", "auth.token_file →/t", ""},
		{"no more tokens", "auth: {token_file: /t}\n", "", "auth.token_file /t→", ""},
		{"another certificate", tls, "tls: {cert_file: /c2, key_file: /k}\n", "tls.cert_file /c→/c2", ""},
		{"TLS", "", tls, "", "tls.cert_file →/c, tls.key_file →/k"},
		{"no more TLS", tls, "", "", "tls.cert_file /c→, tls.key_file /k→"},
		{"a listener", "", "listen: {http: '127.0.0.1:9300', unix_mode: '0600'}\n", "", "listen.unix_mode 0660→0600, listen.http 127.0.0.1:9200→127.0.0.1:9300"},
		{"a quota", "namespaces: [{name: n, slabs: [a]}]\n", "namespaces: [{name: n, slabs: [a], quota: 1GiB, ttl: 5m}]\n", "namespaces[0].quota 0→1GiB, namespaces[0].ttl 0s→5m0s", ""},
		{"one namespace more", "namespaces: [{name: n, slabs: [a]}]\n", "namespaces: [{name: n, slabs: [a]}, {name: m, slabs: [a]}]\n", "namespaces [n]→[n m]", ""},
		{"a segment", "namespaces: [{name: n, slabs: [a]}]\n", "namespaces: [{name: n, slabs: [a], quota: 1GiB, segment: {name: rawblockd}}]\n", "namespaces[0].quota 0→1GiB", "namespaces[0].segment { auto 0640 }→{rawblockd auto 0640 }"},
		{"limits", "", "limits: {batch_keys: 5}\nleases: {default_ttl: 1s}\n", "", "leases.default_ttl 30s→1s, limits.batch_keys 16384→5"},
		{"an empty list", "listen: {lease: {allow_cidrs: []}}\n", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reload(t, short+tt.running, short+tt.found)
			if got := paths(r.Applied); got != tt.applied {
				t.Errorf("applied: got %s, want %s", got, tt.applied)
			}
			if got := paths(r.Restart); got != tt.restart {
				t.Errorf("restart: got %s, want %s", got, tt.restart)
			}
			if again, err := r.Config.Reload(mustLoad(t, short+tt.found)); err != nil || len(again.Applied) != 0 || paths(again.Restart) != tt.restart {
				t.Errorf("a second time: got %+v, %v", again, err)
			}
		})
	}
}

func TestReloadOfSlabs(t *testing.T) {
	r := reload(t, short, "slabs: [{name: a, device: /dev/b, workers: 8}]")
	if got := paths(r.Restart); got != "slabs[0].device /dev/a→/dev/b, slabs[0].workers 32→8" || len(r.Applied) != 0 {
		t.Errorf("got %s, %v", got, r.Applied)
	}
	r = reload(t, short+"namespaces: [{name: n, slabs: [a]}]\n", "slabs: [{name: a, device: /dev/a}, {name: b, device: /dev/b}]\nnamespaces: [{name: n, slabs: [a]}]")
	if got := paths(r.Restart); got != "slabs [a]→[a b]" || len(r.Applied) != 0 {
		t.Errorf("got %s, %v", got, r.Applied)
	}
}

// What the file says may be right, and wrong beside what stays until a restart.
func TestReloadBesideWhatStays(t *testing.T) {
	const public = "listen: {http: '0.0.0.0:9200'}\nauth: {token_file: /t}\n"
	for name, tt := range map[string]struct{ running, found, want string }{
		"no tokens on a listener that stays public": {short + public, short + "listen: {http: '127.0.0.1:9200'}\n", `listen.http: "0.0.0.0:9200" is reachable from beyond this host, which needs auth.token_file`},
		"a namespace on a slab to come":             {short, "slabs: [{name: a, device: /dev/a}, {name: b, device: /dev/b}]\nnamespaces: [{name: n, slabs: [b]}]\n", `namespaces[0].slabs[0]: "b" is not a slab: known are a`},
		"a namespace that the lease listener has": {
			short + "listen: {lease: {addr: '127.0.0.1:9300', namespaces: [n]}}\nnamespaces: [{name: n, slabs: [a]}]\n",
			short + "namespaces: [{name: m, slabs: [a]}]\n", `listen.lease.namespaces[0]: "n" is not one of namespaces`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			running := mustLoad(t, tt.running)
			before := *running
			if r, err := running.Reload(mustLoad(t, tt.found)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want %s", r, err, tt.want)
			}
			if diff := cmp.Diff(&before, running); diff != "" {
				t.Errorf("a refused reload changed\n%s", diff)
			}
		})
	}
}

// Every list of sections has a name to be told by in the log.
func TestListsHaveNames(t *testing.T) {
	for _, l := range leaves("", reflect.ValueOf(Default()).Elem()) {
		if l.typ.Kind() == reflect.Slice && l.typ.Elem().Kind() == reflect.Struct {
			if _, ok := l.typ.Elem().FieldByName("Name"); !ok {
				t.Errorf("%s: its elements have no Name", l.path)
			}
		}
	}
}

// More checks get the configuration, and report with its own faults in the order
// of the file.
func TestMoreChecks(t *testing.T) {
	text := []byte("auth: {token_file: /t}\nlog: {level: loud}\n" + short)
	check := func(c *Config) []Fault { return []Fault{{Path: "auth.token_file", Msg: c.Auth.TokenFile + " is bad"}} }
	_, _, err := merge(Default(), "f", text, nil, check)
	if want := "configuration f: 2 faults\n  line 1: auth.token_file: /t is bad\n  line 2: log.level: \"loud\" is not allowed"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
