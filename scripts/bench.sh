#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the engines beside fio: on DEVICE, which is overwritten (it asks; YES=1
# answers), else on a loop device with direct I/O over a file of its own under TMPDIR,
# or, without root or without loop devices, on that file itself. BENCHTIME is for a
# figure, at most: five rounds of the widest one need 10 to 20 s, most of them fio's
# start. The reports and pictures are left in OUT. Closes with one line of counts; a
# missed target is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${BENCHTIME:-20s}
out=${OUT:-bin/bench}
size=${BENCHSIZE:-2G}
device=${DEVICE:-}
flags=(--time "$time" --window 200ms)
loop=''
work=''
cleanup() {
	[[ -z $loop ]] || losetup --detach "$loop" || true
	[[ -z $work ]] || rm -rf "$work"
}
trap cleanup EXIT

if [[ -z $device ]]; then
	work=$(mktemp -d)
	fallocate -l "$size" "$work/bench.img"
	device=$work/bench.img
	flags+=(--yes) # it is ours
	if [[ $EUID -eq 0 ]]; then
		if loop=$(losetup --find --show --direct-io=on "$device"); then
			device=$loop
		else
			loop=''
			echo "bench: there is no loop device to be had: the file itself is measured" >&2
		fi
	fi
elif [[ ${YES:-} == 1 ]]; then
	flags+=(--yes)
fi
if command -v fio >/dev/null; then
	flags+=(--fio)
else
	echo "bench: fio is not installed: figures without ratios (scripts/deps.sh)" >&2
fi

mkdir -p "$out"
bench() {
	local name=$1
	shift
	bin/rawblockd bench engine --device "$device" "${flags[@]}" --json "$out/$name.json" --svg "$out/$name.svg" "$@" | tee "$out/$name.txt"
}
bench throughput --sizes 4KiB,64KiB,1MiB,24MiB
if [[ ! " ${flags[*]} " == *" --yes "* ]]; then
	flags+=(--yes) # asked, and answered, a moment ago
fi
bench batches --preset lmcache --mix --beside
bench gains --preset mooncake

awk '/^bench: / { figures += $2; met += $4; missed += $6; undecided += $8; without += $10 }
	END { printf "bench: %d figures: %d met, %d missed, %d undecided, %d without a target\n", figures, met, missed, undecided, without }' "$out"/{throughput,batches,gains}.txt
