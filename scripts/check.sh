#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Format, vet, staticcheck and lock annotations, in the product's build and in
# the one with the crash campaign's switches. Tools come from tools.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go build -modfile=tools.mod -o bin/tools/ tool

unformatted=$(bin/tools/gofumpt -l .)
if [[ -n $unformatted ]]; then
	printf 'check: not formatted (make fmt):\n%s\n' "$unformatted" >&2
	exit 1
fi
for script in scripts/*.sh .ci/run; do
	bash -n "$script"
	if command -v shellcheck >/dev/null; then
		shellcheck "$script"
	fi
done
go vet ./...
go vet -tags mutants ./...
bin/tools/staticcheck ./...
bin/tools/staticcheck -tags mutants ./...
go vet -vettool="$PWD/bin/tools/checklocks" -inferred=false ./...
GOARCH=arm64 go vet ./cmd/... ./ioengine/... ./store/...
GOOS=darwin go build ./client/...
echo "check: clean"
