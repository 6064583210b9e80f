// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// C5, without eviction: of one key more than there are slots exactly one is answered
// no_space, with the reason and the remedy, however they come.
func TestOneKeyMoreThanSlots(t *testing.T) {
	const clients = 8
	var mu sync.Mutex
	for name, store := range map[string]func(t *testing.T, c *http.Client, keys []string) outcome{
		"one batch": func(t *testing.T, c *http.Client, keys []string) (o outcome) {
			o.count(t, storing(t, c, keys))
			return o
		},
		"batches at once": func(t *testing.T, c *http.Client, keys []string) (o outcome) {
			var all sync.WaitGroup
			for i := range clients {
				part := keys[i*len(keys)/clients : (i+1)*len(keys)/clients]
				all.Go(func() {
					got := storing(t, c, part)
					mu.Lock()
					defer mu.Unlock()
					o.count(t, got)
				})
			}
			all.Wait()
			return o
		},
		"single objects at once": func(t *testing.T, c *http.Client, keys []string) outcome {
			var ok, full, other atomic.Int64
			var all sync.WaitGroup
			for _, k := range keys {
				all.Go(func() {
					switch a := do(t, c, "PUT", "/v1/kv/default/"+k, strings.NewReader(k)); a.code {
					case 200:
						ok.Add(1)
					case 507:
						a.want(t, 507, "no_space", "")
						if d := a.problem().Detail; !strings.Contains(d, "free slots") || !strings.Contains(d, "remove keys") {
							t.Errorf("%q: %s", k, d)
						}
						full.Add(1)
					default:
						t.Errorf("%q: %d %s", k, a.code, a.body)
						other.Add(1)
					}
				})
			}
			all.Wait()
			return outcome{int(ok.Load()), int(full.Load()), int(other.Load())}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.batchKeys = 1000 })
			c := r.unix()
			slots := int(r.slab.Counts().Total)
			keys := make([]string, slots+1)
			for i := range keys {
				keys[i] = fmt.Sprintf("key-%04d", i)
			}
			if got := store(t, c, keys); got != (outcome{ok: slots, full: 1}) {
				t.Errorf("%d slots, one key more: got %+v", slots, got)
			}
			if n := r.slab.Counts(); n.Used != n.Total {
				t.Errorf("slots: %+v", n)
			}
			// All that were acknowledged are there, and one removed makes room for one.
			found := decode[api.LookupResponse](t, post(t, c, "/v1/batch/lookup", fmt.Sprintf(`{"namespace":"default","keys":%s}`, quoted(keys)), nil))
			if found.Hits != slots {
				t.Errorf("%d hits, want %d", found.Hits, slots)
			}
			var stored, missing string
			for i, k := range found.Results {
				if k.Status == api.StatusOK {
					stored = keys[i]
				} else {
					missing = keys[i]
				}
			}
			do(t, c, "DELETE", "/v1/kv/default/"+stored, nil).ok(t)
			do(t, c, "PUT", "/v1/kv/default/"+missing, strings.NewReader("x")).ok(t)
		})
	}
}

// outcome counts answers.
type outcome struct{ ok, full, other int }

func (o *outcome) count(t *testing.T, got api.StoreResponse) {
	for _, k := range got.Results {
		switch {
		case k.Status == api.StatusOK:
			o.ok++
		case k.Status == api.StatusNoSpace && strings.Contains(k.Error, "free slots") && strings.Contains(k.Error, "remove keys"):
			o.full++
		default:
			t.Errorf("%+v", k)
			o.other++
		}
	}
}

func storing(t *testing.T, c *http.Client, keys []string) api.StoreResponse {
	t.Helper()
	var items []any
	for _, k := range keys {
		items = append(items, k, []byte(k))
	}
	return decode[api.StoreResponse](t, storeFrames(t, c, "namespace=default", frames(items...)))
}

// C10: a lookup's lease whose client is gone ends with its time, to the moment.
func TestLeaseOfAClientThatIsGone(t *testing.T) {
	paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
		client := dialing(t, dial)
		mustStore(t, client, 1000, "a", "b")
		gone := newRaw(t, dial())
		body := `{"namespace":"default","keys":["a","b"],"lease":{"ttl_ms":10000,"owner":"x"}}`
		gone.write(fmt.Sprintf("POST /v1/batch/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if got := decode[api.LookupResponse](t, gone.answer()); got.Lease == nil || got.Hits != 2 {
			t.Fatalf("got %+v", got)
		}
		must(t, gone.conn.Close())
		time.Sleep(10*time.Second - time.Millisecond)
		do(t, client, "DELETE", "/v1/kv/default/a", nil).want(t, 423, "pinned", "")
		if pins := r.store.Status().Pins; pins != 2 {
			t.Errorf("%d pins before its end", pins)
		}
		time.Sleep(2 * time.Millisecond)
		if st := r.store.Status(); st.Pins != 0 || st.Leases != 0 {
			t.Errorf("%d pins, %d leases after its end", st.Pins, st.Leases)
		}
		do(t, client, "DELETE", "/v1/kv/default/a", nil).ok(t)
		do(t, client, "DELETE", "/v1/kv/default/b", nil).ok(t)
	})
}
