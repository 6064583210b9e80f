// SPDX-License-Identifier: Apache-2.0

package api

import "net/http"

// Status is the word one key is answered with.
type Status string

// Every status there is. One key's status never changes another's.
const (
	StatusOK           Status = "ok"
	StatusExists       Status = "exists"        // a store found the key there already
	StatusMissing      Status = "missing"       // no such key
	StatusExpired      Status = "expired"       // its time to live has passed; absent
	StatusPinned       Status = "pinned"        // a lease protects it
	StatusNoSpace      Status = "no_space"      // no slab has enough free slots
	StatusQuota        Status = "quota"         // the namespace's quota is used up
	StatusTooLarge     Status = "too_large"     // longer than limits.payload
	StatusShortBuffer  Status = "short_buffer"  // the client's range is too small
	StatusSizeMismatch Status = "size_mismatch" // the length is not the expected one, or a payload to store is empty
	StatusInvalidKey   Status = "invalid_key"   // not 1 to 1,024 bytes of UTF-8 without control characters
	StatusDuplicate    Status = "duplicate"     // the key stands earlier in the same batch
	StatusIOError      Status = "io_error"      // the device failed
	StatusCorrupt      Status = "corrupt"       // the bytes failed their checksum; the entry is gone
	StatusBufferError  Status = "buffer_error"  // the client's memory failed or changed
	StatusDeadline     Status = "deadline"      // not finished in time; the error says if its outcome is unknown
	StatusBusy         Status = "busy"          // others are at work on it, or hold what it needs; try again
	StatusUnavailable  Status = "unavailable"   // the slab or the metadata is out of service
)

// Statuses lists every Status, in the order of the contract.
func Statuses() []Status {
	return []Status{
		StatusOK, StatusExists, StatusMissing, StatusExpired, StatusPinned, StatusNoSpace,
		StatusQuota, StatusTooLarge, StatusShortBuffer, StatusSizeMismatch, StatusInvalidKey,
		StatusDuplicate, StatusIOError, StatusCorrupt, StatusBufferError, StatusDeadline,
		StatusBusy, StatusUnavailable,
	}
}

// Valid reports whether s is one of the statuses of the contract.
func (s Status) Valid() bool {
	switch s {
	case StatusOK, StatusExists, StatusMissing, StatusExpired, StatusPinned, StatusNoSpace,
		StatusQuota, StatusTooLarge, StatusShortBuffer, StatusSizeMismatch, StatusInvalidKey,
		StatusDuplicate, StatusIOError, StatusCorrupt, StatusBufferError, StatusDeadline,
		StatusBusy, StatusUnavailable:
		return true
	}
	return false
}

// HTTP returns the code a single-object request with this status is answered
// with. Batches answer 200 whatever their keys' statuses are.
func (s Status) HTTP() int {
	switch s {
	case StatusOK:
		return http.StatusOK
	case StatusMissing, StatusExpired, StatusCorrupt:
		return http.StatusNotFound
	case StatusExists, StatusSizeMismatch, StatusDuplicate:
		return http.StatusConflict
	case StatusPinned:
		return http.StatusLocked
	case StatusTooLarge:
		return http.StatusRequestEntityTooLarge
	case StatusNoSpace, StatusQuota:
		return http.StatusInsufficientStorage
	case StatusInvalidKey, StatusShortBuffer, StatusBufferError:
		return http.StatusBadRequest
	case StatusDeadline:
		return http.StatusGatewayTimeout
	case StatusBusy, StatusUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Meaning is the sentence a Problem made of this status carries as its title.
func (s Status) Meaning() string {
	switch s {
	case StatusOK:
		return "done"
	case StatusExists:
		return "the key is stored already"
	case StatusMissing:
		return "no such key"
	case StatusExpired:
		return "the entry's time to live has passed"
	case StatusPinned:
		return "a lease protects the entry"
	case StatusNoSpace:
		return "no slab has enough free slots"
	case StatusQuota:
		return "the namespace's quota is used up"
	case StatusTooLarge:
		return "the payload is longer than limits.payload"
	case StatusShortBuffer:
		return "the buffer range is shorter than the payload"
	case StatusSizeMismatch:
		return "the length is not one it can have"
	case StatusInvalidKey:
		return "a key is 1 to 1024 bytes of valid UTF-8 without control characters"
	case StatusDuplicate:
		return "the key stands twice in one batch"
	case StatusIOError:
		return "the device failed"
	case StatusCorrupt:
		return "the stored bytes failed their checksum; the entry was removed"
	case StatusBufferError:
		return "the client's memory failed or changed during the transfer"
	case StatusDeadline:
		return "the request did not finish in time"
	case StatusBusy:
		return "busy with other work; try again"
	case StatusUnavailable:
		return "the slab or the metadata is out of service"
	}
	return "unknown status"
}
