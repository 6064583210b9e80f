// SPDX-License-Identifier: Apache-2.0

package server

import (
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// auditLog keeps the audit lines of a server.
type auditLog struct{ logLines }

// take is for rigOptions.
func (l *auditLog) take(o *rigOptions) {
	o.log = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// want fails unless these are the audit lines since the last time, but for time
// and sender.
func (l *auditLog) want(t *testing.T, want ...string) {
	t.Helper()
	text := l.String()
	l.reset()
	var got []string
	who := regexp.MustCompile(`who="pid (\d+) uid \d+"`)
	for line := range strings.Lines(text) {
		_, line, ok := strings.Cut(line, "level=INFO msg=audit audit=true ")
		if !ok {
			continue
		}
		m := who.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("nobody did it: %s", line)
		}
		if m[1] != strconv.Itoa(os.Getpid()) {
			t.Errorf("somebody else did it: %s", line)
		}
		got = append(got, strings.TrimSpace(strings.Replace(line, m[0]+" ", "", 1)))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A store that replaced what leases protected is written down, once for its batch;
// one that only might have is not.
func TestAuditForcedOverwrite(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 100, "a", "b", "c")
	pinned(t, c, "60000", "a", "b")
	do(t, c, "PUT", "/v1/kv/default/a?overwrite=true", strings.NewReader("x")).want(t, 423, "pinned", "")
	do(t, c, "PUT", "/v1/kv/default/c?overwrite=true&force=true", strings.NewReader("x")).ok(t)
	do(t, c, "PUT", "/v1/kv/default/new?overwrite=true&force=true", strings.NewReader("x")).ok(t)
	log.want(t)
	do(t, c, "PUT", "/v1/kv/default/a?overwrite=true&force=true", strings.NewReader("x")).ok(t)
	log.want(t, `what="forced overwrite" namespace=default keys=1 forced=1`)
	pinned(t, c, "60000", "a")
	storeFrames(t, c, "namespace=default&overwrite=true&force=true", frames("a", data("a", 10), "b", data("b", 10), "c", data("c", 10))).ok(t)
	log.want(t, `what="forced overwrite" namespace=default keys=3 forced=2`)
}

func TestAuditForcedRemove(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 100, "a", "b", "c")
	pinned(t, c, "60000", "a", "b")
	post(t, c, "/v1/batch/remove", `{"namespace":"default","keys":["c"]}`, nil).ok(t)
	log.want(t)
	post(t, c, "/v1/batch/remove", `{"namespace":"default","keys":["a","none"],"force":true}`, nil).ok(t)
	do(t, c, "DELETE", "/v1/kv/default/b?force=true", nil).ok(t)
	do(t, c, "DELETE", "/v1/kv/default/b?force=true", nil).want(t, 404, "missing", "")
	log.want(t,
		`what="forced remove" namespace=default keys=2 removed=1`,
		`what="forced remove" namespace=default keys=1 removed=1`,
		`what="forced remove" namespace=default keys=1 removed=0`,
	)
}
