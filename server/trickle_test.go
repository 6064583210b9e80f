// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// trickler moves an eighth of a MiB a second, as a client on a slow line does.
type trickler struct{ rest []byte }

const trickle = 128 << 10

func (t *trickler) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.rest[:min(len(t.rest), trickle)])
	time.Sleep(time.Duration(n) * time.Second / trickle)
	t.rest = t.rest[n:]
	return n, nil
}

// slowly takes an answer as a trickler does.
func slowly(r io.Reader) ([]byte, error) {
	var got bytes.Buffer
	for {
		n, err := io.CopyN(&got, r, trickle)
		switch {
		case err == io.EOF:
			return got.Bytes(), nil
		case err != nil:
			return nil, err
		}
		time.Sleep(time.Duration(n) * time.Second / trickle)
	}
}

// Eleven clients that trickle their payloads all finish, though the memory is for
// ten: the eleventh waits for as long as the others move. The sizes are an eighth of
// eleven payloads of 24 MiB in twice limits.payload of 128 MiB, the least that
// limits.stream_bytes may be, and in its default of four times.
func TestElevenTricklingClients(t *testing.T) {
	const clients, size, largest, one = 11, 3 << 20, 16 << 20, 24 * time.Second
	requests := map[string]func(client *http.Client, key string) error{
		"get": func(client *http.Client, key string) error {
			resp, err := client.Get("http://localhost/v1/kv/default/" + key)
			return taken(resp, err, func(b []byte) bool { return bytes.Equal(b, data(key, size)) })
		},
		"batch load": func(client *http.Client, key string) error {
			body := fmt.Sprintf(`{"namespace":"default","keys":[%q,"not there"]}`, key)
			resp, err := client.Post("http://localhost/v1/batch/load", api.MediaJSON, bytes.NewReader([]byte(body)))
			return taken(resp, err, func(b []byte) bool {
				f, _, ok := bytes.Cut(b, []byte("\n"))
				return ok && bytes.Contains(f, []byte(`"ok"`)) && bytes.Contains(b, data(key, size))
			})
		},
		"put": func(client *http.Client, key string) error {
			req, err := http.NewRequest("PUT", "http://localhost/v1/kv/default/new-"+key, &trickler{data("new-"+key, size)})
			if err != nil {
				return err
			}
			req.ContentLength = size
			resp, err := client.Do(req)
			return taken(resp, err, func([]byte) bool { return true })
		},
		"batch store": func(client *http.Client, key string) error {
			resp, err := client.Post("http://localhost/v1/batch/store?namespace=default", api.MediaFrames, &trickler{frames("new-"+key, data("new-"+key, size)).Bytes()})
			return taken(resp, err, func(b []byte) bool { return bytes.Contains(b, []byte(`"ok":1`)) })
		},
	}
	for name, request := range requests {
		for budget, longest := range map[int64]time.Duration{2 * largest: 2 * one, 4 * largest: one} {
			if testing.Short() && (budget > 2*largest || strings.HasPrefix(name, "batch")) {
				continue // the race detector makes much of it
			}
			t.Run(name+" "+strconv.Itoa(int(budget>>20)), func(t *testing.T) {
				paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
					client := dialing(t, dial)
					keys := make([]string, clients)
					for i := range keys {
						keys[i] = fmt.Sprint("key-", i)
						mustStore(t, client, size, keys[i])
					}
					began := time.Now()
					var all sync.WaitGroup
					for _, k := range keys {
						all.Go(func() {
							if err := request(&http.Client{Transport: client.Transport}, k); err != nil {
								t.Errorf("%q: %v", k, err)
							}
						})
					}
					all.Wait()
					// The ends of bodies lie in buffers of the connection.
					if took := time.Since(began); took < longest-2*time.Second || took > longest+4*time.Second {
						t.Errorf("took %v, want %v", took, longest)
					}
				}, func(o *rigOptions) {
					o.size, o.payload, o.buffers, o.pace.Pressed = 128<<20, largest, budget, 3*time.Second
				})
			})
		}
	}
}

// taken takes an answer slowly and looks whether it is right.
func taken(resp *http.Response, err error, right func([]byte) bool) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := slowly(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !right(b) {
		return fmt.Errorf("got %d with %d bytes: %.200q", resp.StatusCode, len(b), b)
	}
	return nil
}
