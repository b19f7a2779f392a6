# Everything that a developer, an operator at a desk or CI does here. It needs Go
# and make; what else a target needs, it fetches or says.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Tools that are no part of the program, pinned; `go run` fetches each once.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
SQLC        := github.com/sqlc-dev/sqlc/cmd/sqlc@v1.30.0

# No C compiler is asked for, and nothing of this machine ends up in the binary.
BUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false
# A PostgreSQL for one run: CARAFE_TEST_DATABASE_URL, or one that is started.
WITH_POSTGRES := go run ./test/withpostgres
# The race detector is linked by a C compiler.
RACE := $(shell command -v cc >/dev/null 2>&1 && echo -race)

.PHONY: help run build quick test test-all test-openstack test-cluster-api fuzz bench bench-peer lint image generate

help: ## Print the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target about; do printf '  make %-17s %s\n' "$$target" "$$about"; done

run: build ## Run all of Carafe on 127.0.0.1:9511, with a PostgreSQL, broker and clock of its own
	@exec bin/carafe serve

build: ## Build bin/carafe
	@$(BUILD) -o bin/carafe ./functions/carafe

quick: ## The inner loop: the tests of functions/ and shared/ that are quick
	@$(WITH_POSTGRES) go test -short ./functions/... ./shared/... ./schema/... ./triggers/... ./test/arch/...

test: build ## All tests that need a PostgreSQL and the package registries, for races too
	@[ -n "$(RACE)" ] || echo 'no C compiler (cc): the race detector is left out'
	@$(WITH_POSTGRES) go test $(RACE) -timeout 30m . ./functions/... ./shared/... ./schema/... ./triggers/...
	@# Whole processes, one package at a time: they wait more than they work.
	@CARAFE_BIN=$(CURDIR)/bin/carafe $(WITH_POSTGRES) go test -count=1 -p 1 -timeout 60m ./test/...
	@CARAFE_BIN=$(CURDIR)/bin/carafe $(WITH_POSTGRES) go -C test/knative test -timeout 20m ./...
	@go -C knative/image test -timeout 20m ./...

test-all: lint test test-openstack test-cluster-api ## All tests: what CI runs

test-openstack: build ## Against real Keystone, Barbican, Nova, Neutron, Glance, and the real clients
	@test/e2e/run.sh

test-cluster-api: build ## Against a real kube-apiserver and the real Cluster API controllers
	@test/clusterapi/run.sh

fuzz: ## What finds what nobody thought of: schemathesis for 20 minutes, each Go fuzz target for one; nightly
	@CARAFE_FUZZ_SECONDS=1200 $(WITH_POSTGRES) go test -count=1 -timeout 60m -run TestSchemathesis ./test/scenario
	@grep -rl --include='*_test.go' '^func Fuzz' shared functions | sort | while read -r file; do \
	for target in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\).*/\1/p' $$file); do \
	go test -run '^$$' -fuzz "^$$target$$" -fuzztime 1m "./$$(dirname $$file)"; done; done

bench: build ## Measure, print a table and write it to test/bench/results; BENCH=quick for a short look
	@go run ./test/bench

bench-peer: build ## Measure beside Magnum 23.0.0 in one OpenStack, and write the ratios; BENCH=quick too
	@go run ./test/bench -peer

lint: ## gofmt, vet, staticcheck, boundaries between packages, known vulnerabilities
	@unformatted=$$(gofmt -l function.go functions knative shared schema triggers test); [ -z "$$unformatted" ] || { echo "gofmt -w these:"; echo "$$unformatted"; exit 1; }
	@for module in . test/knative knative/image; do go -C $$module vet ./...; done
	@go run $(STATICCHECK) ./...
	@go test -count=1 ./test/arch
	@mkdir -p bin; status=0; go run $(GOVULNCHECK) ./... >bin/govulncheck.txt 2>&1 || status=$$?; \
	if grep -q '^Vulnerability #' bin/govulncheck.txt; then cat bin/govulncheck.txt; exit 1; fi; \
	[ $$status = 0 ] || echo 'govulncheck is left out: the vulnerability database cannot be reached'

image: ## Make the image as an OCI layout in bin/image (knative/image tells more)
	@rm -rf bin/image && cd knative/image && go run . -layout ../../bin/image

generate: ## Write generated code anew, after a change in schema/ or shared/postgres/queries/
	@go run $(SQLC) generate
