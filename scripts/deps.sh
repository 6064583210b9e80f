#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs, as root on Debian or Ubuntu, the programs that the tests call. Does
# nothing when all are there; without root it says which tests will be skipped.
set -euo pipefail

# program → Debian package, and what goes without it.
needs=(
	"gcc gcc race tests cannot be built (go test -race needs cgo)"
	"make make nothing can be run through the Makefile"
	"blkid util-linux init does not name foreign signatures; its tests are skipped"
	"losetup util-linux tests on loop devices are skipped"
	"mkfs.ext4 e2fsprogs tests of init against a foreign file system are skipped"
	"curl curl the HTTP walk through of the README cannot be run"
	"jq jq the HTTP walk through of the README cannot be run"
	"mount mount scripts of the contract in which a file system fails are skipped"
	"fsfreeze util-linux scripts of the contract in which a file system hangs are skipped"
	"fio fio benches have nothing to be held against; their tests with ratios are skipped"
	"promtool prometheus the metrics are not checked by promtool"
)

PATH="$PATH:/usr/sbin:/sbin"
missing=()
packages=()
for need in "${needs[@]}"; do
	read -r program package consequence <<<"$need"
	if ! command -v "$program" >/dev/null; then
		missing+=("$program: $consequence")
		packages+=("$package")
	fi
done
# A C compiler without the C library's headers cannot link the race runtime.
if [[ ! -e /usr/include/stdlib.h ]]; then
	missing+=("stdlib.h: race tests cannot be built (go test -race needs cgo)")
	packages+=("libc6-dev")
fi

if ! command -v go >/dev/null; then
	echo "deps: no go command: install Go 1.26" >&2
	exit 1
fi
if [[ $EUID -ne 0 ]]; then
	echo "deps: not root: tests on loop devices and of held or mounted devices will be skipped"
fi
if [[ ${#missing[@]} -eq 0 ]]; then
	echo "deps: everything the tests call is installed"
	exit 0
fi
printf 'deps: missing %s\n' "${missing[@]}"
if [[ $EUID -ne 0 ]]; then
	echo "deps: not root, nothing installed; as root run scripts/deps.sh"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "deps: no apt-get here: install ${packages[*]} with the system's own package manager" >&2
	exit 0
fi
mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
echo "deps: installing the packages ${packages[*]}"
# Only programs are wanted: no service of a package is started, as Debian asks
# /usr/sbin/policy-rc.d before it starts one.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 0755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
# Where the archive cannot be reached the tests run all the same: those that lack a
# program skip by name, and the race tests are left out without a compiler.
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}"; }; then
	echo "deps: apt-get failed, see above: the tests run without ${packages[*]}" >&2
	exit 0
fi
if [[ " ${packages[*]} " == *" prometheus "* ]]; then
	echo "deps: prometheus is there for its promtool; its service is not started, and not enabled"
	systemctl --quiet disable prometheus 2>/dev/null || true # where there is no systemd there is no service
fi
