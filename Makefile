# What can be done here. `make help` lists it.

GOLANGCI_LINT := v2.15.0
GOVULNCHECK := v1.9.0
BUF := v1.75.0
PROTOC_GEN_GO := v1.36.12
PROTOC_GEN_GO_GRPC := v1.6.2
FUZZTIME ?= 3s
GO ?= go
export GO
# What is tested with the race detector too, the four that wait longest first.
RACED = ./redisstore ./cmd/stint/internal/server . ./lease ./cmd/stint/internal/... ./internal/... ./grpclimit ./guard ./httplimit ./remotestore ./resilience/... ./rule ./storetest
# As many packages at once: one more than processors, for many tests wait.
PACKAGES := $(shell expr $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)
# Compiling takes a fifth longer with what only a debugger reads. For one, build
# with `go build`; for an image, deploy/Dockerfile does, without paths of sources.
LEAN := -gcflags=all=-dwarf=false
GOFLAGS := $(filter-out $(LEAN),$(shell $(GO) env GOFLAGS)) $(LEAN)
export GOFLAGS
# Every program with the race detector waits before it ends, by default a second,
# for races that others may be about to report. Who is left behind by the last
# test of a package, and races later than this, is not seen.
export GORACE ?= atexit_sleep_ms=50

.DEFAULT_GOAL := help

.PHONY: help
help: ## list what make can do
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## build bin/stint
	$(GO) build -o bin/stint ./cmd/stint

.PHONY: run
run: build ## serve: gateway on :8000 before a small application, check API on :8080
	$(GO) run ./examples/demo

.PHONY: check
check: vet lint ## what to run before every commit: build, vet, lint, short tests
	$(GO) build ./...
	$(GO) test -short ./...

.PHONY: test
test: ## everything that can be tested; without a server, what needs none
	$(MAKE) --no-print-directory -j 2 vet servers
	$(GO) test -vet=off -p $(PACKAGES) -race -short $(RACED)
	scripts/test-left $(PACKAGES) $(RACED)
	$(GO) test -vet=off -v ./cmd/stint/internal/ruletest # alone, for it measures time; it prints its figures
	$(GO) test -vet=off -v ./cmd/stint/internal/failuretest # alone, for it measures time; it prints its figures
	scripts/test-redis-versions
	cd bench && $(GO) vet ./... && $(GO) test -vet=off ./...
	cd contrib/stintpolicy && $(GO) vet . && $(GO) test -vet=off -race .
	scripts/fuzz $(FUZZTIME)
	scripts/test-readme
	scripts/report-test-servers

.PHONY: servers
servers: ## install what tests start: Redis, Valkey, PostgreSQL, proxies, Node.js
	scripts/install-test-servers
	scripts/install-wheels

.PHONY: vet
vet:
	$(GO) vet ./...

.PHONY: lint
lint: bin/golangci-lint ## every linter, with the exceptions of .golangci.yml
	bin/golangci-lint run ./...
	cd bench && ../bin/golangci-lint run ./...
	cd contrib/stintpolicy && ../../bin/golangci-lint run ./...

bin/golangci-lint: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@touch $@

.PHONY: check-deps
check-deps: bin/govulncheck ## fail on known vulnerabilities, and on dependencies with a patch release older than 30 days
	$(GO) run ./scripts/checkdeps -govulncheck bin/govulncheck

bin/govulncheck: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	@touch $@

.PHONY: generate
generate: bin/buf ## write the Go code of api/ anew from its .proto files
	cd api && PATH="$(CURDIR)/bin:$$PATH" buf lint && PATH="$(CURDIR)/bin:$$PATH" buf generate

.PHONY: generated
generated: bin/buf ## fail unless the code of api/ is what make generate writes
	rm -rf bin/.generated && cd api && PATH="$(CURDIR)/bin:$$PATH" buf generate --output ../bin/.generated
	diff -r -x '*.proto' -x '*_test.go' api/stint bin/.generated/stint

bin/buf: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install github.com/bufbuild/buf/cmd/buf@$(BUF)
	GOBIN="$(CURDIR)/bin" $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO)
	GOBIN="$(CURDIR)/bin" $(GO) install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC)
	@touch $@

.PHONY: fuzz
fuzz: ## look for new failures; make fuzz FUZZTIME=1m
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## the memory store and the Redis store beside their rivals, and the bars it must meet; make bench ARGS="-only hot"
	cd bench && $(GO) run . $(ARGS)

.PHONY: bench-server
bench-server: build ## the server's protocols beside an empty gRPC server and redis-server, and their bars
	cd bench && $(GO) run . -only server -rounds 21 -slice 200ms $(ARGS)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
