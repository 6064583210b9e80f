// SPDX-License-Identifier: Apache-2.0

package store

// Status is the answer for one key of a batch.
type Status uint8

// The answers. String gives the word that the HTTP API uses.
const (
	OK           Status = iota // done, and durable where the slab is in sync mode
	Exists                     // stored before; the older bytes stay
	Missing                    // no such entry
	Expired                    // its time to live is over; counts as absent
	Pinned                     // a lease protects it
	NoSpace                    // no slab of the namespace has enough free slots
	OverQuota                  // the namespace's quota is used up
	TooLarge                   // longer than the largest payload
	ShortBuffer                // the caller's range is smaller than the entry
	SizeMismatch               // the entry is not as long as the caller said
	InvalidKey                 // not 1 to 1024 bytes of valid UTF-8 without control characters
	Duplicate                  // an earlier place of the same batch has this key
	IOError                    // the device failed
	Corrupt                    // the bytes do not match their checksum; the entry is dropped
	BufferError                // the client's memory failed or changed meanwhile
	Deadline                   // not finished in time
	Busy                       // try again
	Unavailable                // the slab or the metadata store cannot do this now
)

var statusWords = [...]string{
	"ok", "exists", "missing", "expired", "pinned", "no_space", "quota", "too_large", "short_buffer",
	"size_mismatch", "invalid_key", "duplicate", "io_error", "corrupt", "buffer_error", "deadline", "busy", "unavailable",
}

// String returns the API's word, such as "no_space".
func (s Status) String() string {
	if int(s) < len(statusWords) {
		return statusWords[s]
	}
	return "unknown"
}

// KeyResult is the answer for one key.
type KeyResult struct {
	Status Status
	Bytes  int64  // stored length, for hits
	Gen    uint64 // for hits: tells this entry from any other that the key ever had
	Err    error  // why, where the status does not say it all
}
