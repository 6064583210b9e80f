// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/contract"
)

// FuzzStoreBody: any body either stores exactly the keys it answers ok for, or
// is refused and stores nothing. The rig's end counts slots and memory.
func FuzzStoreBody(f *testing.F) {
	f.Add(frames("a", []byte("abc"), "b", []byte("x")).Bytes())
	f.Add([]byte(`{"key":"a","bytes":3}` + "\nab"))
	f.Add([]byte(`{"key":"\ud800","bytes":1}` + "\nx" + `{"key":"a","bytes":99999999}` + "\n"))
	r := newRig(f)
	h := r.srv.DataHandler(Unix)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := r.store.Status().Entries
		req := httptest.NewRequest("POST", "/v1/batch/store?namespace=default", bytes.NewReader(body))
		req.Header.Set("Content-Type", api.MediaFrames)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		judge(t, contract.Exchange{
			Listener: "unix", Method: "POST", Target: "/v1/batch/store?namespace=default", Header: req.Header, Body: body, Whole: true,
			Status: w.Code, Answer: w.Header(), Content: w.Body.Bytes(), Complete: true,
		})
		stored := r.store.Status().Entries - before
		switch w.Code {
		case 200:
			var res api.StoreResponse
			must(t, json.Unmarshal(w.Body.Bytes(), &res))
			if res.OK != stored {
				t.Fatalf("answered ok for %d keys and stored %d", res.OK, stored)
			}
		case 400, 413:
			if stored != 0 {
				t.Fatalf("answered %d and stored %d keys", w.Code, stored)
			}
		default:
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		for _, e := range listAll(t, r) {
			_, err := r.store.Remove(t.Context(), "default", []string{e}, true)
			must(t, err)
		}
	})
}

func listAll(t testing.TB, r *rig) []string {
	t.Helper()
	entries, _, err := r.store.List(t.Context(), "default", "", 1000)
	must(t, err)
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	return keys
}
