SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
export PATH := $(CURDIR)/.cache/bin:$(CURDIR)/tools/node_modules/.bin:$(PATH)

# What test, test-race and bench run on. One package at a time, where they run: the large ones keep every core busy
# by themselves, and have deadlines.
PKG ?= ./...

PLUGINS := $(addprefix .cache/bin/,protoc-gen-go protoc-gen-connect-go protoc-gen-openapiv3)
GENERATED := proto api/openapi.json api/events console/src/gen
BUF := tools/node_modules/.package-lock.json
CONSOLE := console/node_modules/.package-lock.json
CONSOLE_TEST := console/test/node_modules/.package-lock.json
CONFORMANCE := .cache/conformance/node_modules/.package-lock.json

.PHONY: help
help: ## say what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## run everything in one process, on this machine
	go run ./cmd/countersign-dev

.PHONY: build
build: ## build the programs into bin/
	go build -ldflags='-s -w' -o bin/ ./cmd/countersign ./cmd/countersign-dev ./cmd/countersign-utilities

.PHONY: test
test: .cache/bin/gotestsum ## run the tests; starts a Postgres for them, and installs it if there is none
	go build $(PKG)
	scripts/postgres.sh gotestsum --format=pkgname-and-test-fails -- -p=1 -timeout=20m $(PKG)

.PHONY: test-race
test-race: .cache/bin/gotestsum ## run the tests under the race detector
	go build -race $(PKG)
	scripts/postgres.sh gotestsum --format=pkgname-and-test-fails -- -p=1 -timeout=40m -race $(PKG)

# Those that approvals rest on; the others run on their seeds with the tests.
FUZZ := CanonicalItems Diff
FUZZTIME ?= 60s

.PHONY: fuzz
fuzz: ## look for inputs that break digests or the differ, a minute each
	scripts/fuzz.sh $(FUZZTIME) $(FUZZ)

.PHONY: e2e-real
e2e-real: .cache/realservers/ready ## run the whole life of published servers; fetches them by npm and Go, 1.2 GB
	go test -tags=real -run=TestPublishedServers -count=1 -timeout=60m -v ./cmd/internal/e2e

.PHONY: e2e-cluster
e2e-cluster: ## disturb three apis, three workers, Temporal and Postgres for MINUTES=15, by chance of SEED=, and check what must hold
	MINUTES=$(or $(MINUTES),15) SEED=$(SEED) scripts/postgres.sh go test -tags=cluster -run=TestCluster -count=1 -timeout=2h -v ./cmd/internal/e2e

.PHONY: bench
bench: ## measure the product at small sizes, in minutes; tables go to .cache/bench
	mkdir -p .cache/bench && go build -o .cache/bin/bench ./cmd/internal/bench
	scripts/postgres.sh .cache/bin/bench -out .cache/bench $(MEASURE)

.PHONY: bench-full
bench-full: ## measure it at all sizes, which takes hours; MEASURE=NAME takes one measurement
	mkdir -p .cache/bench && go build -o .cache/bin/bench ./cmd/internal/bench
	scripts/postgres.sh .cache/bin/bench -full -out .cache/bench $(MEASURE)

.PHONY: bench-go
bench-go: ## run the Go benchmarks: canonicaliser, differ, policies, the database
	scripts/postgres.sh go test -run='^$$' -bench=. -benchmem $(PKG)

.PHONY: real-issuer
real-issuer: .cache/realissuer/ready ## get tokens from an authorization server that nobody here wrote; fetches it, and a Node.js for it, by npm
	REAL_ISSUER=$(CURDIR)/.cache/realissuer go test -tags realissuer -count 1 ./oauth -run TestAWholeLifeWithAnIssuerThatNobodyHereWrote

.PHONY: conformance
conformance: $(CONFORMANCE) ## run the public conformance suite for MCP clients; fetches it, and a Node.js for it, by npm
	scripts/conformance.sh

# PATTERN= takes some of the tests: a part of the names.
.PHONY: test-console
test-console: $(CONSOLE_TEST) ## drive the console of a development process with a browser; installs chromium if there is none
	mkdir -p .cache/console-test && go build -o .cache/console-test/ ./cmd/countersign ./cmd/countersign-dev ./cmd/internal/longago ./mcptest/cmd/faulty
	CHROMIUM=$$(scripts/chromium.sh) CONSOLE_TEST_PROGRAMS=$(CURDIR)/.cache/console-test \
		node --test --test-force-exit --test-concurrency=1 $(if $(PATTERN),--test-name-pattern='$(PATTERN)') console/test/*.test.js

# SERVERS=N... each with ten tools; filling a database with 100,000 takes half an hour.
.PHONY: bench-console
bench-console: $(CONSOLE_TEST) ## measure the console's screens of a small and of a large fleet
	mkdir -p .cache/console-test && go build -o .cache/console-test/ ./cmd/countersign ./cmd/countersign-dev && go build -o .cache/bin/bench ./cmd/internal/bench
	BENCH=$(CURDIR)/.cache/bin/bench CHROMIUM=$$(scripts/chromium.sh) CONSOLE_TEST_PROGRAMS=$(CURDIR)/.cache/console-test \
		node console/test/fleet.js $(or $(SERVERS),1000 10000)

.PHONY: screenshots
screenshots: $(CONSOLE_TEST) ## make the pictures of docs/images anew, of the console of a development process
	mkdir -p .cache/console-test docs/images && go build -o .cache/console-test/ ./cmd/countersign ./cmd/countersign-dev ./mcptest/cmd/faulty
	CHROMIUM=$$(scripts/chromium.sh) CONSOLE_TEST_PROGRAMS=$(CURDIR)/.cache/console-test node console/test/screenshots.js docs/images

.PHONY: record
record: ## record the workflow histories that the replay tests read
	go test -tags record ./worker -run=TestRecord -v

.PHONY: lint
lint: .cache/bin/golangci-lint .cache/bin/workflowcheck $(BUF) ## check style, determinism of workflows, protos and deployment files
	golangci-lint run
	workflowcheck ./workflows/...
	go -C tools vet ./...
	go -C tools/deploycheck run . ../..
	cd proto && buf lint && buf format --diff --exit-code --path countersign

.PHONY: generate
generate: $(PLUGINS) $(BUF) $(CONSOLE) ## make everything that is generated anew
	rm -rf .cache/openapi && go -C tools run ./protoprint ../proto/third_party
	cd proto && buf generate && buf generate --template buf.gen.console.yaml
	mkdir -p api && go -C tools run ./openapi ../proto/openapi.base.json ../.cache/openapi >api/openapi.json
	go run ./cmd/internal/eventdocs api/events

.PHONY: console
console: $(CONSOLE) ## build the pages of the console into console/dist, which is committed
	cd console && npx tsc --noEmit && npx vite build --logLevel=warn

.PHONY: verify
verify: generate console lint ## check that generated files and the console's pages are up to date, import arrows and style
	git diff --exit-code --stat -- $(GENERATED) console/dist
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED) console/dist); [[ -z $$new ]] || { echo "generated, but not in git: $$new"; exit 1; }
	go test .

# Tools are built once for each version, from tools/go.mod.
.cache/bin/%: tools/go.mod tools/go.sum
	@echo "building $*" && mkdir -p $(@D) && built=$$(go -C tools tool -n $*) && cp "$$built" $@.tmp && mv $@.tmp $@

$(CONSOLE): console/package-lock.json
	npm --prefix console ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@

$(CONSOLE_TEST): console/test/package-lock.json
	npm --prefix console/test ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@

.cache/realservers/ready: scripts/realservers.sh $(wildcard tools/realservers/*.* tools/realservers/gitlab/*.*)
	scripts/realservers.sh

$(BUF): tools/package-lock.json
	npm --prefix tools ci --ignore-scripts --no-audit --no-fund && touch $@

# In a folder of its own: it brings a whole Node.js.
.cache/realissuer/ready: $(wildcard tools/realissuer/*)
	mkdir -p .cache/realissuer && cp $^ .cache/realissuer
	npm --prefix .cache/realissuer ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@

$(CONFORMANCE): tools/conformance/package.json tools/conformance/package-lock.json
	@echo "fetching the conformance suite and a Node.js for it, 60 MB, by npm" && mkdir -p .cache/conformance && cp $^ .cache/conformance
	npm --prefix .cache/conformance ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@
