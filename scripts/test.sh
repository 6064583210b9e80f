#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each fuzz target for a moment, all tests once, those of concurrent packages again
# under the race detector, and the crash campaign's mutant table in short form.
# Closes with "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t packages < <(go list ./...)
# Packages without goroutines or locks gain nothing from the race detector; the
# crash and kill campaigns would only become slow.
mapfile -t race < <(printf '%s\n' "${packages[@]}" |
	grep -vE '/(api|config|freelist|evict|internal/arch|internal/contract/scripts|internal/crashtest|internal/killtest|internal/tools/.*)$')

passes=(-timeout 8m "${packages[@]}")
if [[ $(go env CGO_ENABLED) == 1 ]] && command -v "$(go env CC)" >/dev/null; then
	passes+=(-- -race -short -timeout 8m "${race[@]}")
else
	echo "test: no C compiler: the race detector's pass is left out (scripts/deps.sh)" >&2
fi
passes+=(-- -tags mutants -short -timeout 8m -run '^TestMutants$' ./internal/crashtest)

scripts/fuzz.sh 2s | grep -vE '^(fuzz: elapsed|ok |PASS)'

mkdir -p bin
go build -o bin/testsum ./internal/tools/testsum
bin/testsum "${passes[@]}"
