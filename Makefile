# What can be done here. `make help` lists it.

GOLANGCI_LINT := v2.15.0
FUZZTIME ?= 3s
GO ?= go

.DEFAULT_GOAL := help

.PHONY: help
help: ## list what make can do
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: build
build: ## build bin/stint
	$(GO) build -trimpath -o bin/stint ./cmd/stint

.PHONY: run
run: build ## serve: gateway on :8000 before a small application, check API on :8080
	$(GO) run ./examples/demo

.PHONY: check
check: vet lint ## what to run before every commit: build, vet, lint, short tests
	$(GO) build ./...
	$(GO) test -short ./...

.PHONY: test
test: vet servers ## everything that can be tested; without a server, what needs none
	$(GO) test -race -short . ./guard ./httplimit ./internal/... ./redisstore ./replay ./resilience/... ./rule ./storetest
	$(GO) test $$($(GO) list ./... | grep -v /internal/failuretest)
	$(GO) test -v ./internal/failuretest # alone, for it measures time; it prints its figures
	cd bench && $(GO) vet . && $(GO) test .
	scripts/fuzz $(FUZZTIME)
	scripts/test-readme

.PHONY: servers
servers: ## install what tests start and the system has in its packages: a Redis server
	scripts/install-test-servers

.PHONY: vet
vet:
	$(GO) vet ./...

.PHONY: lint
lint: bin/golangci-lint ## every linter, with the exceptions of .golangci.yml
	bin/golangci-lint run ./...
	cd bench && ../bin/golangci-lint run ./...

bin/golangci-lint: Makefile
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@touch $@

.PHONY: fuzz
fuzz: ## look for new failures; make fuzz FUZZTIME=1m
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## the memory store and the Redis store beside their rivals, and the bars it must meet; make bench ARGS="-only hot"
	cd bench && $(GO) run . $(ARGS)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
