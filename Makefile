# Everything here works on a fresh machine with Go and make. `make help` lists the targets.

GO        ?= go
PREFIX    ?= /usr/local
FUZZTIME  ?= 10m
BENCH     ?= .
COUNT     ?= 6
CHECKS    ?= 10000
VERSION   ?=

GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI    = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT   = golang.org/x/perf/cmd/benchstat@latest

# No C anywhere: the binary is static, and building needs no compiler but Go's.
export CGO_ENABLED = 0

LDFLAGS = -s -w $(if $(VERSION),-X github.com/rocescope/rocescope/internal/version.version=$(VERSION))

.DEFAULT_GOAL := build
.PHONY: lab lab-test lab-wire conformance help build demo test race fuzz properties faults bench bench-wire bench-rnic bench-tui bench-scale microbench profile lint golangci docs trust install dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

build: ## build ./rocescope
	$(GO) build -trimpath -pgo cmd/rocescope/analysis.pgo -ldflags '$(LDFLAGS)' -o rocescope ./cmd/rocescope

demo: build ## build, then show what happened in a bundled capture
	./rocescope demo

test: ## run every test that this machine allows, and say what was skipped and why
	$(GO) run ./internal/testkit/cmd/testrun -timeout 30m ./...

race: ## the tests under the race detector (this one needs a C compiler)
	CGO_ENABLED=1 $(GO) run ./internal/testkit/cmd/testrun -race -timeout 30m ./...

fuzz: ## run every fuzz target for FUZZTIME each (ONLY=Name for some)
	$(GO) run ./internal/testkit/cmd/fuzzrun -time $(FUZZTIME) -only '$(ONLY)' ./...

properties: ## search with the property tests, CHECKS cases each, from fresh seeds
	$(GO) test -timeout 60m -count 1 $$(grep -rl '"pgregory.net/rapid"' --include=*_test.go . | xargs -n 1 dirname | sort -u) -rapid.checks $(CHECKS) -rapid.seed $$(date +%s)

faults: ## kill captures, exports and spills at a hundred moments each (root for captures; minutes)
	ROCESCOPE_FAULT_ROUNDS=100 $(GO) test -timeout 60m -count 1 -run 'Killed$$' ./cmd/rocescope ./internal/sink

bench: build ## measure what docs/performance.md promises, and write that page (minutes, some gigabytes)
	$(GO) run ./internal/bench -out docs/performance.md

bench-wire: ## the same for sending and capturing: docs/performance-wire.md (root, minutes)
	$(GO) run ./internal/bench/wire -out docs/performance-wire.md

bench-rnic: ## the same for the software RNIC: docs/performance-rnic.md (root, minutes)
	$(GO) run ./internal/bench/rnic -out docs/performance-rnic.md

bench-tui: build ## the same for the screen: docs/performance-tui.md (minutes, some gigabytes; as root also live captures)
	$(GO) run ./internal/bench/screen -out docs/performance-tui.md

bench-scale: ## what the tracker costs when there is very much of everything: docs/scale.md (minutes, some gigabytes of memory)
	$(GO) run ./internal/bench/scale -out docs/scale.md

lab: ## build the soft-RoCE laboratory's guest from Debian packages, into the user's cache
	$(GO) run ./lab/cmd/lab build

lab-test: build ## run the interoperability table in it, and write docs/interop.md (root, minutes; ONLY=regexp for some rows)
	$(GO) run ./lab/cmd/lab test $(if $(ONLY),-only '$(ONLY)',-out docs/interop.md)

conformance: ## run the conformance suite against Linux in it, and write docs/conformance-linux.md (root, minutes; TIER=quick or soak, CASES=IDs for some)
	$(GO) run ./lab/cmd/lab conformance -tier $(or $(TIER),full) $(if $(CASES),-case '$(CASES)',-out docs/conformance-linux.md)

lab-wire: build ## run rocescope wire between two guests, and write docs/wire-linux.md (root, minutes; ONLY=regexp for some rows)
	$(GO) run ./lab/cmd/lab wire $(if $(ONLY),-only '$(ONLY)',-out docs/wire-linux.md)

microbench: ## run the benchmarks of single functions (BENCH=regexp, COUNT=6)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./... | tee bench.out
	$(GO) run $(BENCHSTAT) bench.out

# The profile need not be fresh, only typical: the compiler inlines what is hot. It is not named default.pgo because then every
# test and trial build would compile all packages twice.
profile: ## renew the profile by which the compiler knows the hot path of an analysis
	$(GO) test ./internal/engine -run '^$$' -bench '^BenchmarkPipeline/read.decode(.icrc)?.track/workers=1' -benchtime 60x -cpuprofile profile.out -o engine.test
	$(GO) tool pprof -proto profile.out > cmd/rocescope/analysis.pgo
	rm -f profile.out engine.test

lint: ## formatting and static checks
	@files=$$($(GO) run $(GOFUMPT) -l .); test -z "$$files" || { echo "not formatted (gofumpt -w):"; echo "$$files"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

golangci: ## the larger set of linters (compiles for minutes the first time)
	$(GO) run $(GOLANGCI) run

docs: build ## bring the generated parts of README.md and docs/ up to date
	$(GO) run ./internal/docgen

trust: ## the same of docs/trust.md alone, with coverage measured anew (a minute)
	$(GO) run ./internal/docgen -trust -coverage

install: build ## install program, manual and shell completion below PREFIX
	install -D rocescope $(DESTDIR)$(PREFIX)/bin/rocescope
	./rocescope man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	./rocescope completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/rocescope
	./rocescope completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_rocescope
	./rocescope completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/rocescope.fish

dist: ## tarball, Debian package, bill of materials and checksums in dist/ (VERSION=v1.2.3, ARCH=amd64,arm64)
	$(GO) run ./internal/dist $(if $(VERSION),-version $(VERSION)) $(if $(ARCH),-arch $(ARCH))

clean: ## remove what the other targets made
	rm -rf rocescope bench.out dist
