# SPDX-License-Identifier: Apache-2.0
#
# Every target closes with one line of counts where it counts something, and
# exits non-zero on any finding. What bench finds are figures: a missed target of
# theirs is none.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

POINTS   ?= 100000
FUZZTIME ?= 30s
KILLS    ?= 50
DEMOFLAGS ?=
BENCHTIME ?= 20s

.PHONY: build demo test check fmt deps crash crash-run mutants fuzz kill torture bench clean help

help:
	@echo 'make build                 bin/rawblockd and bin/rawblockd-linux-arm64'
	@echo 'make demo                  build, then the main job end to end'
	@echo 'make test                  check, unit tests, race tests, short crash campaign'
	@echo 'make check                 format, vet, staticcheck, checklocks'
	@echo 'make crash POINTS=100000   crash campaign in both durability modes, then the mutant table'
	@echo 'make torture KILLS=50      kill -9 loop of the real daemon'
	@echo 'make bench BENCHTIME=20s   engines beside fio, so long a figure; DEVICE=/dev/... is overwritten;'
	@echo '                           a missed target is counted, and no failure'
	@echo 'make fuzz FUZZTIME=30s     each fuzz target for that long'
	@echo 'make fmt | deps | clean    format sources | install what the tests call | remove bin/'

build:
	CGO_ENABLED=0 go build -trimpath -o bin/rawblockd ./cmd/rawblockd
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -o bin/rawblockd-linux-arm64 ./cmd/rawblockd

demo: build
	bin/rawblockd demo $(DEMOFLAGS)

test: deps check
	scripts/test.sh

check:
	scripts/check.sh

fmt:
	go build -modfile=tools.mod -o bin/tools/ tool
	bin/tools/gofumpt -l -w .

deps:
	scripts/deps.sh

crash: crash-run mutants

crash-run:
	go test -c -o bin/crash.test ./internal/crashtest
	bin/crash.test -test.run '^TestCampaign$$' -test.timeout 0 -points $(POINTS)

mutants:
	go test -c -tags mutants -o bin/crash-mutants.test ./internal/crashtest
	bin/crash-mutants.test -test.run '^TestMutants$$' -test.timeout 0

kill: build
	go test -c -o bin/kill.test ./internal/killtest
	bin/kill.test -test.run '^TestKill$$' -test.timeout 0 -kills $(KILLS) -binary $(CURDIR)/bin/rawblockd

torture: kill

bench: build
	BENCHTIME=$(BENCHTIME) scripts/bench.sh

fuzz:
	scripts/fuzz.sh $(FUZZTIME)

clean:
	rm -rf bin
