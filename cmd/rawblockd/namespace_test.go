// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// TestNamespaceVerbs makes a namespace, changes it, and deletes it.
func TestNamespaceVerbs(t *testing.T) {
	dir := shortDir(t)
	s, addr := serveIn(t, dir)
	at := func(args ...string) []string { return append(args, "--addr", addr) }

	out := ok(t, at("namespace", "set", "tenant", "--quota", "8MiB", "--ttl", "1h", "--slabs", "dev", "--fingerprint", "llama")...)
	for _, want := range []string{"namespace    tenant\n", "from         API\n", "slabs        dev\n", "quota        8.0 MiB\n", "ttl          1h0m0s\n", "fingerprint  llama\n", "entries      0\n", "tenant: made\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("set: no %q in %q", want, out)
		}
	}
	if r := commandWith(t.Context(), "x", at("put", "k", "-n", "tenant")...); r.code != exitOK {
		t.Fatalf("put: %+v", r)
	}
	var put api.PutNamespaceResponse
	asJSON(t, &put, at("namespace", "set", "tenant", "--quota", "0", "--json")...)
	if put.Created || put.Quota != 0 || put.TTLMS != 3_600_000 || put.Fingerprint != "llama" || len(put.Slabs) != 1 || put.Entries != 1 {
		t.Errorf("set of the quota alone: got %+v", put)
	}
	ok(t, at("namespace", "set", "tenant", "--quota", "6MiB")...)
	asJSON(t, &put, at("namespace", "set", "tenant", "--ttl", "0", "--slabs", "", "--json")...)
	if put.TTLMS != 0 || len(put.Slabs) != 0 || put.Quota != 6<<20 || put.Fingerprint != "llama" {
		t.Errorf("set back to the defaults: got %+v", put)
	}
	if out := ok(t, at("namespace", "set", "tenant")...); !strings.Contains(out, "tenant: it is there, and nothing was changed: name what to change by --slabs") {
		t.Errorf("set of nothing: got %q", out)
	}
	s.end()
	serveIn(t, dir)

	list := ok(t, at("namespace", "list")...)
	lines := strings.Split(list, "\n")
	if len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "NAMESPACE ENTRIES SLOT BYTES QUOTA PINNED TTL SLABS FROM" ||
		strings.Join(strings.Fields(lines[1]), " ") != "default 0 0 B none 0 B none dev configuration" ||
		strings.Join(strings.Fields(lines[2]), " ") != "tenant 1 2.0 MiB 6.0 MiB 0 B none all API" {
		t.Errorf("list: got\n%s", list)
	}
	var all api.NamespacesResponse
	asJSON(t, &all, at("namespace", "list", "--json")...)
	if len(all.Namespaces) != 2 || all.Namespaces[1].Name != "tenant" || !all.Namespaces[0].FromConfig {
		t.Errorf("list --json: got %+v", all)
	}
	var n api.Namespace
	asJSON(t, &n, at("namespace", "show", "tenant", "--json")...)
	if n.Fingerprint != "llama" || n.Entries != 1 || n.SlotBytes != 2<<20 {
		t.Errorf("show --json: got %+v", n)
	}

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"delete", "tenant"}, "holds entries"},
		{[]string{"delete", "tenant"}, "to lose them, run: rawblockd clear -n tenant"},
		{[]string{"delete", "default"}, "is in the configuration file"},
		{[]string{"delete", "nobody"}, "unknown namespace"},
		{[]string{"show", "nobody"}, "unknown namespace"},
		{[]string{"set", "tenant", "--fingerprint", "mistral"}, "entries of another model"},
		{[]string{"set", "tenant", "--slabs", "nvme9"}, "nvme9"},
		{[]string{"set", "a/b"}, "a/b"},
	} {
		args := at(append([]string{"namespace"}, tt.args...)...)
		wantLine(t, command(t, args...), args, exitFailed, tt.want)
	}
	ok(t, at("rm", "k", "-n", "tenant")...)
	if got := ok(t, at("namespace", "delete", "tenant")...); got != "tenant: deleted\n" {
		t.Errorf("delete: got %q", got)
	}
	if got := ok(t, at("namespace", "list")...); strings.Contains(got, "tenant") {
		t.Errorf("list after delete: got %s", got)
	}
}

// asJSON runs a command line, which must succeed, and decodes what it prints;
// fields that the type does not have are an error.
func asJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(ok(t, args...)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}
