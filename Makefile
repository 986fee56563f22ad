# make            what the targets are
# make test       everything that CI runs
SHELL := /bin/bash
GO ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help build demo test format vet static unit tools fuzz clean

help: ## print this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

build: tools ## build bin/mailroom
	CGO_ENABLED=1 $(GO) build -trimpath -tags urfave_cli_no_docs -o bin/mailroom ./cmd/mailroom

demo: tools ## run the demo: agents, messages, a ladder climbed, the trace
	$(GO) run ./cmd/mailroom demo

test: tools format vet static unit ## all checks and all tests, with the race detector

tools: ## install a C compiler where that is possible, and say what is missing
	@command -v $(GO) >/dev/null || { echo "Go 1.26 or later is missing: see https://go.dev/doc/install" >&2; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
		command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -q && apt-get install -qy gcc libc6-dev; } || { \
		echo "a C compiler is missing: install gcc or clang (SQLite is compiled from source)" >&2; exit 1; }

format:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt-ed: $$unformatted" >&2; exit 1; }

vet:
	$(GO) vet ./...

static:
	$(GO) run $(STATICCHECK) ./...

unit:
	CGO_ENABLED=1 $(GO) test -race -p 2 -timeout 20m ./...

fuzz: tools ## run every fuzz target for a short while (FUZZTIME=10s)
	@for target in $$(grep -rhoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed 's/func //' | sort -u); do \
		package=$$(dirname $$(grep -rlE "^func $$target\(" --include='*_test.go' .)); \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $${FUZZTIME:-10s} $$package || exit 1; done

clean: ## remove what was built
	rm -rf bin
