// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as "256MiB", "1.5GiB", "4GB" or a plain
// number of bytes. Never negative.
type Size int64

// Binary units; the YAML form also knows the decimal ones.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

const sizeUnits = "B, KiB, MiB, GiB, TiB, KB, MB, GB, TB"

func unitBytes(unit string) (int64, bool) {
	switch unit {
	case "", "B":
		return 1, true
	case "KiB":
		return int64(KiB), true
	case "MiB":
		return int64(MiB), true
	case "GiB":
		return int64(GiB), true
	case "TiB":
		return int64(TiB), true
	case "KB":
		return 1e3, true
	case "MB":
		return 1e6, true
	case "GB":
		return 1e9, true
	case "TB":
		return 1e12, true
	}
	return 0, false
}

// ParseSize reads a size. Units are case-sensitive, because "Mb" and "mB" are
// other units; a fraction must come out as whole bytes.
func ParseSize(s string) (Size, error) {
	digits := strings.TrimLeft(s, "0123456789.")
	number, unit := s[:len(s)-len(digits)], strings.TrimPrefix(digits, " ")
	if number == "" {
		return 0, fmt.Errorf("%q is not a size: want a number and one of the units %s", s, sizeUnits)
	}
	mult, ok := unitBytes(unit)
	if !ok {
		return 0, fmt.Errorf("%q has the unknown unit %q: allowed are %s", s, unit, sizeUnits)
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%q is not a size: %q is no number", s, number)
	}
	r.Mul(r, new(big.Rat).SetInt64(mult))
	if !r.IsInt() {
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	}
	if !r.Num().IsInt64() {
		return 0, fmt.Errorf("%q is more than %d bytes", s, int64(math.MaxInt64))
	}
	return Size(r.Num().Int64()), nil
}

// String returns the size in the largest binary unit that divides it.
func (s Size) String() string {
	switch {
	case s == 0:
		return "0"
	case s%TiB == 0:
		return strconv.FormatInt(int64(s/TiB), 10) + "TiB"
	case s%GiB == 0:
		return strconv.FormatInt(int64(s/GiB), 10) + "GiB"
	case s%MiB == 0:
		return strconv.FormatInt(int64(s/MiB), 10) + "MiB"
	case s%KiB == 0:
		return strconv.FormatInt(int64(s/KiB), 10) + "KiB"
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalYAML writes the form that ParseSize reads.
func (s Size) MarshalYAML() (any, error) { return s.String(), nil }

// AutoSize is a size or Auto.
type AutoSize int64

// Auto lets the daemon choose.
const Auto AutoSize = -1

func parseAutoSize(s string) (AutoSize, error) {
	if s == "auto" {
		return Auto, nil
	}
	n, err := ParseSize(s)
	if err != nil {
		return 0, fmt.Errorf("%w, or auto", err)
	}
	return AutoSize(n), nil
}

// String returns "auto" or the size.
func (s AutoSize) String() string {
	if s == Auto {
		return "auto"
	}
	return Size(s).String()
}

// MarshalYAML writes the form that the file uses.
func (s AutoSize) MarshalYAML() (any, error) { return s.String(), nil }

// Mode is a file mode in octal. Quoted or not, 0660 and "0660" mean the same.
type Mode uint32

func parseMode(s string) (Mode, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf(`%q is not a file mode: want octal digits up to 0777, as in "0660"`, s)
	}
	return Mode(n), nil
}

// String returns four octal digits.
func (m Mode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// MarshalYAML writes the mode as a string, for a bare 0660 is octal to one
// YAML reader and decimal to the next.
func (m Mode) MarshalYAML() (any, error) { return m.String(), nil }

const durationUnits = "ns, us, ms, s, m, h"

// parseDuration reads a Go duration that is not negative.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: want a number with one of the units %s, as in 30s or 1h30m", s, durationUnits)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}
