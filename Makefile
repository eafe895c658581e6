# `make help` lists the targets.

GOLANGCI_LINT := v2.15.0
GOVULNCHECK := v1.9.0
APIDIFF := v0.0.0-20261014143641-f0251eb4aa3e
BUF := v1.75.0
GRPCURL := v1.9.4
JSONNET := v0.22.0
PROTOC_GEN_GO := v1.36.12
PROTOC_GEN_GO_GRPC := v1.6.2
FUZZTIME ?= 3s
GO ?= go
export GO
# The folders of the modules in go.work. The pattern `work` is all their packages; a
# pattern with ... ends where another module begins.
MODULES := $(shell scripts/modules)
# Packages that are also tested with the race detector; the four that wait longest
# come first.
RACED = ./redisstore ./cmd/stint/internal/server . ./lease ./cmd/stint/internal/... ./... \
	$(patsubst %,./%/...,$(filter-out . api bench cmd/stint examples,$(MODULES)))
# Packages whose results are not cached, because they read files outside their module,
# and the cache regards only those of the module.
UNCACHED = $(addprefix ./cmd/stint/internal/,deploytest docstest moduletest monitoringtest uitest)
# The number of packages tested at once: one more than processors, because many
# tests wait.
PACKAGES := $(shell expr $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)
# Debug information makes compiling a fifth slower, so it is left out. Use `go build`
# for a program to debug, and deploy/Dockerfile for an image.
LEAN := -gcflags=all=-dwarf=false
GOFLAGS := $(filter-out $(LEAN),$(shell $(GO) env GOFLAGS)) $(LEAN)
export GOFLAGS
# A program with the race detector waits before it exits, by default for a second, so
# that other goroutines can still report races. The shorter wait misses only races
# that occur more than 50 ms after the last test of a package.
export GORACE ?= atexit_sleep_ms=50

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## build bin/stint
	$(GO) build -o bin/stint ./cmd/stint

.PHONY: run
run: build ## run the demo: gateway on :8000 in front of a small application, check API on :8080
	$(GO) build -C examples -o ../bin/demo ./demo
	bin/demo

.PHONY: check
check: vet lint ## run before every commit: build, vet, lint, short tests
	$(GO) build work
	$(GO) test -short work

.PHONY: test
test: ## run all tests; tests whose server is missing are skipped
	$(MAKE) --no-print-directory -j 2 vet servers
	scripts/tidy -check
	$(GO) run ./scripts/licenses -check
	$(MAKE) --no-print-directory apidiff
	scripts/check-ui
	$(GO) test -vet=off -p $(PACKAGES) -race -short $(RACED)
	scripts/test-left $(PACKAGES) $(RACED)
	$(GO) test -vet=off -count=1 $(UNCACHED)
	$(GO) test -vet=off -v ./cmd/stint/internal/ruletest # alone, because it measures time
	$(GO) test -vet=off -v ./cmd/stint/internal/failuretest # alone, because it measures time
	scripts/test-redis-versions
	$(GO) test -vet=off ./bench/... # alone, because it measures time
	scripts/fuzz $(FUZZTIME)
	scripts/test-readme
	scripts/report-test-servers

.PHONY: servers
servers: bin/grpcurl bin/jsonnet ## install the programs that tests start: Redis, Valkey, PostgreSQL, PgBouncer, Memcached, proxies, Prometheus, Lua, Node.js, Chromium, grpcurl, envoyproxy/ratelimit
	scripts/install-test-servers
	scripts/install-wheels
	scripts/install-ratelimit || true # the tests that need it skip

bin/grpcurl: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install github.com/fullstorydev/grpcurl/cmd/grpcurl@$(GRPCURL)
	@touch $@

bin/jsonnet: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install github.com/google/go-jsonnet/cmd/jsonnet@$(JSONNET)
	@touch $@

.PHONY: ui
ui: ## build the admin pages from ui/ into the program; needs Node.js
	npm ci --prefix ui --ignore-scripts --no-audit --no-fund
	npm run build --prefix ui
	$(GO) run ./scripts/licenses

.PHONY: screenshots
screenshots: ## write pictures of the admin pages into docs/ui; needs Chromium
	STINT_SCREENSHOTS="$(CURDIR)/docs/ui" $(GO) test -count 1 -run TestScreenshots ./cmd/stint/internal/uitest

.PHONY: mixin
mixin: bin/jsonnet ## render the alerts and dashboards of deploy/mixin
	scripts/mixin

.PHONY: vet
vet:
	$(GO) vet work

.PHONY: tidy
tidy: ## tidy go.mod and go.sum of every module
	scripts/tidy

.PHONY: licenses
licenses: ## write THIRD_PARTY_LICENSES, with the licenses of the modules that the program links
	$(GO) run ./scripts/licenses

.PHONY: lint
lint: bin/golangci-lint ## run every linter, with the exceptions of .golangci.yml
	bin/golangci-lint run $(addsuffix /...,$(MODULES))

bin/golangci-lint: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@touch $@

.PHONY: check-deps
check-deps: bin/govulncheck ## fail on known vulnerabilities, and on dependencies with a patch release older than 30 days
	$(GO) run ./scripts/checkdeps -govulncheck bin/govulncheck

bin/govulncheck: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	@touch $@

.PHONY: apidiff
apidiff: bin/apidiff ## print the incompatible changes of the Go API since the last tag
	scripts/apidiff

bin/apidiff: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install golang.org/x/exp/cmd/apidiff@$(APIDIFF)
	@touch $@

.PHONY: generate
generate: bin/buf ## generate the Go code of api/ from its .proto files
	cd api && PATH="$(CURDIR)/bin:$$PATH" buf lint && PATH="$(CURDIR)/bin:$$PATH" buf generate

.PHONY: generated
generated: bin/buf ## fail unless the code of api/ equals the output of make generate
	rm -rf bin/.generated && cd api && PATH="$(CURDIR)/bin:$$PATH" buf generate --output ../bin/.generated
	diff -r -x '*.proto' -x '*_test.go' api/stint bin/.generated/stint

bin/buf: Makefile
	GOBIN="$(CURDIR)/bin" $(GO) install github.com/bufbuild/buf/cmd/buf@$(BUF)
	GOBIN="$(CURDIR)/bin" $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO)
	GOBIN="$(CURDIR)/bin" $(GO) install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC)
	@touch $@

.PHONY: fuzz
fuzz: ## run every fuzz target; make fuzz FUZZTIME=1m
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: build ## compare the memory and Redis stores with other limiters, and check the bars; make bench ARGS="-only hot"
	cd bench && $(GO) run . $(ARGS)

.PHONY: bench-server
bench-server: build ## compare the server's protocols with an empty gRPC server and redis-server, and check the bars
	cd bench && $(GO) run . -only server -rounds 21 -slice 200ms $(ARGS)

.PHONY: example-lines
example-lines: ## count the lines of the programs in examples/, and check the bars
	cd examples && $(GO) test -count 1 -run ProgramsAreSmall -v .

.PHONY: clean
clean: ## remove built programs
	rm -rf bin
