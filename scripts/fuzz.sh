#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target of the module for the given time (default 30s).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fuzztime=${1:-30s}

targets=0
failed=0
while IFS=: read -r file name; do
	targets=$((targets + 1))
	echo "fuzz: $name in $(dirname "$file") for $fuzztime"
	if ! go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" -fuzzminimizetime 100x "$(dirname "$file")"; then
		failed=$((failed + 1))
	fi
done < <(find . -name "*_test.go" -print0 |
	xargs -0 -r grep -oHE "^func Fuzz[A-Za-z0-9_]*" | sed "s/:func /:/" | sort)

echo "fuzz: targets=$targets failed=$failed"
[[ $failed -eq 0 && $targets -gt 0 ]]
