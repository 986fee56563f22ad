# make            list the targets
# make test       run everything that CI runs
SHELL := /bin/bash
GO ?= go
export CGO_ENABLED := 1

# Pinned here and not in go.mod, because its dependencies would become the project's.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Every command starts the program, so the program is linked statically where possible (Linux with a libc.a), which makes
# its start faster. The tags leave out SQLite's extensions and the manuals of the flag library. STATIC is evaluated only
# when something is built, because a target may install the compiler first.
STATIC = $(and $(filter Linux,$(shell uname -s)),$(filter /%,$(shell $$($(GO) env CC) -print-file-name=libc.a 2>/dev/null)))
TAGS = urfave_cli_no_docs sqlite_omit_load_extension$(if $(STATIC), netgo osusergo)
LDFLAGS = $(if $(STATIC),-s -w -linkmode external -extldflags -static)
# Go records the commit, except with -buildvcs=false in GOFLAGS.
VERSION = $(shell git rev-parse HEAD 2>/dev/null)
COMMIT = $(addprefix -X main.commit=,$(VERSION))

# The sources of the phone app and the console. Only a new build of them needs npm; the results are committed.
PHONE := commands/surface/phone
CONSOLE := commands/surface/console

# Programs of other projects that the tests use, such as MCP clients and a decryptor of pushes. npm installs them, and git
# ignores them.
CLIENTS := cmd/mailroom/testdata/clients cmd/mailroom/testdata/hosts orchestrator/transport/testdata/ece $(PHONE)/app $(CONSOLE)/app

.DEFAULT_GOAL := help
.PHONY: help build client systems demo test test-hosts hosts compiler tools clients browsers database programs terminal statements format vet static prepared unit unit-raced unit-program unit-plain unit-served unit-others test-long test-postgres ha cluster servers phone pictures screenshots dist packers test-dist plugins bench torture fuzz corpora powerloss clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

# SQLite has a quarter of a million lines of C. Go compiles them once for each set of flags ($(1)), then uses its cache.
announce = @if [ "$$($(GO) list -f '{{.Stale}}' $(1) github.com/mattn/go-sqlite3)" = true ]; then \
	echo "Compiling SQLite and Mailroom: a minute or two this time, seconds from then on"; fi

build: compiler ## build bin/mailroom
	$(call announce,-trimpath -tags '$(TAGS)')
	$(GO) build -p 2 -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS) $(COMMIT)' -o bin/mailroom ./cmd/mailroom

# The client has no SQLite and needs no C compiler. It uses databases on other machines and on servers.
SYSTEMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
# The systems that make test compiles for. One architecture of each is enough, because no file is for one architecture only.
COMPILED := darwin/arm64 windows/amd64
client: ## build bin/mailroom-client, without SQLite, for this machine or another (GOOS=darwin GOARCH=arm64)
	CGO_ENABLED=0 $(GO) build -p 2 -trimpath -tags 'client urfave_cli_no_docs' -ldflags '-s -w $(COMMIT)' -o bin/mailroom-client$(if $(filter windows,$(GOOS)),.exe) ./cmd/mailroom

# go list -export compiles everything but does not link. Linking is most of the time of a build with a warm cache.
systems: ## compile the client for other systems (COMPILED="linux/arm64 ...")
	@for system in $(COMPILED); do \
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) list -p 2 -export -tags client ./cmd/mailroom >/dev/null || exit 1; done

demo: build ## run the demo: agents, messages, retries, the trace
	bin/mailroom demo

test: prepared format ## all checks and all tests
	@$(MAKE) --no-print-directory -j 2 vet static systems $(UNITS)

compiler: ## install a C compiler if possible, or print what is missing
	@command -v $(GO) >/dev/null || { echo "Go 1.26 or later is missing: see https://go.dev/doc/install" >&2; exit 1; }
	@cc=$$($(GO) env CC); cc=$${cc%% *}; command -v $$cc >/dev/null && exit 0; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -q && apt-get install -qy --no-install-recommends gcc libc6-dev; \
	else \
		echo "a C compiler ($$cc) is missing: SQLite is compiled from source. Install gcc or clang" >&2; exit 1; \
	fi

# Debian starts an ssh server when it installs one, so only CI installs one.
tools: compiler ## also install strace, git, valgrind, ruby and iproute2, which tests need
	@missing=$$(for p in strace git valgrind ruby; do command -v $$p >/dev/null || echo $$p; done; \
		PATH=$$PATH:/sbin:/usr/sbin command -v ip >/dev/null || echo iproute2); \
	command -v ssh >/dev/null && [ -x /usr/sbin/sshd ] || { [ -n "$$CI" ] && missing="$$missing openssh-client openssh-server"; } || \
		echo "ssh, or its server, is missing: places on other machines are not tested" >&2; \
	[ -z "$$missing" ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends $$missing; } || { \
		case $$missing in *strace*) echo "strace is missing: what a power cut leaves is not tested" >&2;; esac; \
		case $$missing in *git*) echo "git is missing: the packages are not tested" >&2;; esac; \
		case $$missing in *ruby*) echo "ruby is missing: the Homebrew formula is not tested" >&2;; esac; \
		case $$missing in *valgrind*) echo "valgrind is missing: what commands cost is not compared" >&2;; esac; }

# Tests that need npm packages are skipped where npm cannot install them, with a warning. In CI, that is an error.
clients: ## install the npm packages that the tests run
	@command -v npm >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends npm; } || true
	@for folder in $(CLIENTS); do \
		( cd $$folder && { [ node_modules/.package-lock.json -nt package-lock.json ] || { echo "installing what $$folder needs of npm"; npm ci --ignore-scripts --loglevel=error; }; } ) || { \
			[ -z "$$CI" ] && echo "NOT TESTED with $$folder: npm could not install it; CI will" >&2; } || exit 1; \
	done

# Firefox uses libnotify to show notifications on a bus that the test starts. Without the browsers, their tests are skipped
# with a warning. In CI, that is an error.
browsers: ## install the browsers that the tests of the phone app use
	@missing=$$(for p in firefox-esr chromium chromium-headless-shell dbus-daemon; do command -v $$p >/dev/null || echo $$p; done; \
		PATH=$$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q 'libnotify\.so\.4' || echo libnotify4); \
	[ -z "$$missing" ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends firefox-esr chromium chromium-headless-shell dbus libnotify4; } || { \
		[ -z "$$CI" ] && echo "NOT TESTED in browsers:" $$missing "not installed; CI will" >&2; }

# Without PostgreSQL, its tests are skipped with a warning. In CI, that is an error.
database: ## install the PostgreSQL server that the tests start, and pgbouncer
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && [ -x /usr/sbin/pgbouncer ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends postgresql pgbouncer; } || { \
		[ -z "$$CI" ] && echo "NOT TESTED with PostgreSQL: it is not installed; CI will" >&2; }

# Without one of them, the pages that use it are not tested, with a warning. In CI, that is an error.
programs: ## install the programs that README.md and docs use, and the shells with completions
	@missing=$$(for p in curl jq sqlite3 zsh fish; do command -v $$p >/dev/null || echo $$p; done); \
	[ -z "$$missing" ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends $$missing; } || { \
		[ -z "$$CI" ] && echo "NOT TESTED: pages and completions that use" $$missing "which are not installed; CI will" >&2; }

terminal: ## install tmux, with which the tests type into agent hosts
	@command -v tmux >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends tmux; } || { \
		echo "tmux is missing: agent hosts cannot be tested in a terminal. Install it" >&2; exit 1; }

# SQLite is compiled on one core for each set of flags that the tests use. This compiles them at the same time, while
# the downloads run. It also compiles the client, which takes minutes on a new machine, and which TestClient builds.
LIBRARIES := ./commands/... ./orchestrator/... ./tracing/...
prepared: compiler
	$(call announce)
	@$(GO) build -p 2 $(LIBRARIES) & plain=$$!; \
	$(GO) build -p 2 -race $(LIBRARIES) & race=$$!; \
	CGO_ENABLED=0 $(GO) list -p 2 -export -tags client ./cmd/mailroom >/dev/null & client=$$!; \
	$(GO) run $(STATICCHECK) -version >/dev/null 2>&1 & \
	$(MAKE) --no-print-directory tools clients browsers database programs && wait $$plain && wait $$race && wait $$client

# The packages whose tests open an engine.
ENGINE := adoption agents bridge bridge/letters delivery exports hosts ledger messages overview questions reading removal retention router \
	sessions store/sqlite store/sqlite/tables teams threads traffic

# The packages whose tests open their databases with enginetest, so that the tests also run on a PostgreSQL server. MATRIX
# are the tests of cmd/mailroom that use several vocabularies on one database.
ON_SERVER := $(patsubst %,./orchestrator/%,adoption agents delivery exports hosts ledger messages overview person questions reading removal retention router \
	sessions teams threads traffic) ./commands/admin ./commands/surface/hook
SURFACES := $(patsubst %,./commands/%,coral surface/cli surface/daemon surface/mcp surface/web)
PAGES := $(patsubst %,./commands/surface/%,console phone)
MATRIX := ^Test(Vocabular|EveryVocabulary|Ralph|Alert|Answer|ForgedAnswer|Malformed.*User|OnlyThePhones|QuestionByHand|Strangers|WhatDoesNotFit)
# The tests of cmd/mailroom that use no database, or only a database that they make themselves.
ELSEWHERE := ^Test(Scripts|Pages|GoPage|Screens|Picture|Torture|KilledReaders|ManyHosts|SignalOnManyHosts|Cards|MalformedLines|Links|Imports|Folders|Everything|Goroutines|Statements)
SERVER := $(GO) run ./cmd/tests -postgres
THROUGH_POOLER := $(patsubst %,./orchestrator/%,adoption delivery exports hosts ledger messages questions reading router sessions threads traffic)

statements: ## collect the engine's statements and the plans of the frequent ones again; then read git diff
	: >orchestrator/orchestratortest/statements/statements.sql
	$(GO) test -p 1 -count 1 $(ENGINE:%=./orchestrator/%) ./commands/admin ./commands/connect ./commands/surface/daemon ./commands/surface/mcp ./commands/surface/web -statements
	$(GO) test -count 1 -short -timeout 30m ./cmd/mailroom -statements
	$(GO) test -count 1 -run '^TestPlans$$' ./orchestrator/orchestratortest/statements -update

console: ## rebuild the console's page (commands/surface/console/app to www); commit the result
	cd $(CONSOLE)/app && npm ci --ignore-scripts --loglevel=error
	$(GO) test -count 1 -run '^TestBundle$$' ./$(CONSOLE) -update

phone: ## rebuild the phone app (commands/surface/phone/app to www); commit the result
	for app in $(PHONE) $(CONSOLE); do ( cd $$app/app && npm ci --ignore-scripts --loglevel=error ) || exit 1; done
	$(GO) test -count 1 -run '^TestIcons$$' ./$(PHONE) -update
	$(GO) test -count 1 -run '^TestBundle$$' ./$(PHONE) -update

pictures: tools screenshots ## take the pictures of README.md: two agents in their terminals, the phone app and the console
	$(GO) test -count 1 -run '^TestPicture$$' ./cmd/mailroom -pictures

screenshots: ## take the pictures in docs/phone and docs/console with Chromium
	$(GO) test -count 1 -run '^TestScreenshots$$' ./$(PHONE) -screenshots
	$(GO) test -count 1 -run '^TestConsoleOfDemo$$' ./cmd/mailroom -screenshots

# The tests that run real agent hosts. `make test` runs the main ones for each host; with the tag, all run.
HOSTTESTS = $(RACE) -timeout 1h -count 1 -tags hosts -run '^Test(Claude|Codex|Gemini|OpenCode|Pi|Qwen|Copilot|Hosts)' ./cmd/mailroom

test-hosts: tools clients terminal ## run all tests with real agent hosts: Claude Code, Codex, Gemini CLI, OpenCode, Kilo, pi, Qwen Code, Copilot CLI
	MAILROOM_TEST_HOSTS=testdata/hosts $(HOSTTESTS)

# The hosts are installed into a separate folder, with the versions that testdata/hosts pins for those that VERSIONS does not
# name. pi and Qwen Code are not optional dependencies there, because npm skips optional ones that need a newer node.
HOSTS := @anthropic-ai/claude-code-linux-x64 @github/copilot-linux-x64 @earendil-works/pi-coding-agent @google/gemini-cli @kilocode/cli-linux-x64 @openai/codex @qwen-code/qwen-code opencode-linux-x64-baseline
hosts: tools terminal ## run test-hosts with other versions of the hosts (VERSIONS=latest, or VERSIONS="@openai/codex@0.169.0 ...")
	rm -rf bin/hosts && mkdir -p bin/hosts && cp cmd/mailroom/testdata/hosts/{.npmrc,package.json,package-lock.json} bin/hosts
	cd bin/hosts && npm install --ignore-scripts --save-exact --loglevel=error $(if $(filter latest,$(or $(VERSIONS),latest)),$(HOSTS:=@latest),$(VERSIONS))
	@cd bin/hosts && echo "testing with:" && npm ls --depth 0 | tail -n +2
	@MAILROOM_TEST_HOSTS="$(CURDIR)/bin/hosts" $(HOSTTESTS) && verdict=passed || verdict=FAILED; \
	cd bin/hosts && echo "$$verdict with:" && npm ls --depth 0 | tail -n +2; [ $$verdict = passed ]

# The architectures to build packages for. Another architecture than this machine's needs Debian's cross compiler, and QEMU
# to start the program once.
ARCHES ?= amd64 arm64
dist: packers ## build the files that users install into dist/ (ARCHES="amd64 arm64" SYSTEMS="darwin/arm64 ..." URL=https://... KEY=FILE)
	cd packaging && $(GO) run . -out ../dist -clients '$(SYSTEMS)' -url '$(URL)' -key '$(abspath $(KEY))' $(ARCHES)

packers: compiler ## install what `make dist` needs: git, cross compilers, an emulator
	@command -v dpkg-query >/dev/null || { echo "packages are built on Debian and its derivatives: dpkg is missing" >&2; exit 1; }
	@host=$$($(GO) env GOHOSTARCH); missing=; command -v git >/dev/null || missing=git; \
	for arch in $(ARCHES); do \
		[ $$arch = $$host ] && continue; \
		case $$arch in amd64) gnu=x86_64;; arm64) gnu=aarch64;; *) echo "there is no package for $$arch: ARCHES may have amd64 and arm64" >&2; exit 1;; esac; \
		command -v $$gnu-linux-gnu-gcc >/dev/null && [ -e /usr/$$gnu-linux-gnu/lib/libc.a ] || missing="$$missing gcc-$${gnu/_/-}-linux-gnu libc6-dev-$$arch-cross"; \
		command -v qemu-$$gnu-static >/dev/null || command -v qemu-$$gnu >/dev/null || missing="$$missing qemu-user-static"; \
	done; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends $$missing; } || { \
		echo "missing to build packages:" $$missing "(as root this target installs them; ARCHES=$$host needs no cross compiler)" >&2; exit 1; }

test-dist: packers ## as root: install, use and purge the .deb in a fresh Debian, build the image, and build in a minimal Debian
	@[ "$$(id -u)" = 0 ] || { echo "a fresh Debian is made by debootstrap, which only root can run" >&2; exit 1; }
	@command -v debootstrap >/dev/null && command -v buildah >/dev/null || { export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -q && apt-get install -qy --no-install-recommends debootstrap buildah; }
	cd packaging && $(GO) test -count 1 -timeout 1h -tags dist -run '^TestDist' -v .

plugins: build ## write a plugin of Claude Code and an extension of Gemini CLI into dist/
	$(GO) run ./cmd/plugins dist "$$(bin/mailroom --version | sed 's/.* //')"

format:
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	[ -z "$$files" ] || { echo "not formatted with gofmt:" $$files >&2; exit 1; }

# The tags only add files, so one run checks all.
vet:
	$(call announce)
	$(GO) vet -p 2 -tags hosts,postgres ./...
	cd bench && $(GO) vet -p 2 ./...
	cd otlptest && $(GO) vet -p 2 ./...
	cd packaging && $(GO) vet -p 2 -tags dist ./...

# Without a network, staticcheck may be unavailable, which is a warning. In CI, it is an error.
static:
	@if [ -n "$$CI" ] || $(GO) run $(STATICCHECK) -version >/dev/null 2>&1; then \
		echo "$(GO) run $(STATICCHECK) -tags hosts,postgres ./..."; $(GO) run $(STATICCHECK) -tags hosts,postgres ./... && \
		for module in bench otlptest packaging; do ( cd $$module && $(GO) run $(STATICCHECK) -tags dist ./... ) || exit 1; done; \
	else \
		echo "NOT CHECKED: $(STATICCHECK) could not be fetched or built; CI will run it" >&2; \
	fi

# cmd/tests prints the progress, and ends a run in which a test makes no progress for five minutes.
TESTS := $(GO) run ./cmd/tests
RACE := GORACE=atexit_sleep_ms=0 $(TESTS) -race

# The race detector makes tests several times slower. It is used for the packages whose goroutines share data, and for the
# tests of the surfaces and the program that serve many clients at once.
RACED := $(patsubst %,./%,commands/surface/daemon \
	$(addprefix orchestrator/,store/postgres store/sqlite transport bridge delivery reading messages watchdog program store store/bell))
MEETING := ^Test(Many|Client|Waiter|Answer|Abandoned|Newest|IDUsed|IDOfAWait|Listen|Inbox|Subscriptions|Events|Streams|Slow|Revoked|CalledOff|StandardInput)
SERVING := ^Test(Serve|MCP|Daemon|Contention)

# The slowest of the other packages. They start first, so that no core is idle at the end.
LONGEST := ./commands/surface/console ./commands/surface/phone ./orchestrator/move ./orchestrator/router ./orchestrator/orchestratortest

# The packages of the engine that make test also runs on a server. test-postgres runs the others there.
TWICE := $(patsubst %,./orchestrator/%,delivery reading messages router hosts)

# Tests mostly wait for processes, disks and browsers, so several run on each core. go test runs no vet, because `make vet`
# runs at the same time.
SHORT := -short -vet=off -timeout 40m -p 2
CROWDED := -parallel $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
UNITS := unit-raced unit-program unit-plain unit-served unit-others
unit:
	$(call announce,-race)
	@$(MAKE) --no-print-directory -j 2 $(UNITS)

unit-raced:
	$(RACE) $(SHORT) $(RACED)
	$(RACE) $(SHORT) -run '$(MEETING)' ./commands/surface/web ./commands/surface/mcp

unit-program:
	$(TESTS) $(SHORT) $(CROWDED) -skip '$(SERVING)' ./cmd/mailroom
	$(RACE) $(SHORT) $(CROWDED) -run '$(SERVING)' ./cmd/mailroom

unit-plain:
	$(TESTS) $(SHORT) $(LONGEST) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(RACED) ./cmd/mailroom)")

unit-served:
	$(SERVER) $(SHORT) $(TWICE)
	$(SERVER) $(SHORT) $(CROWDED) -run '$(MATRIX)' ./cmd/mailroom

unit-others:
	$(TESTS) -C bench -vet=off ./...
	$(TESTS) -C otlptest -vet=off ./...

test-long: tools clients browsers database programs ## run all tests at full length with the race detector, and the tests of the packages
	$(RACE) -timeout 2h -p 2 ./...
	$(TESTS) -C packaging -vet=off -timeout 1h -p 2 ./...

# FOR: length of the torture. SEED: repeats the torture with that seed.
test-postgres: compiler tools clients browsers programs terminal cluster servers ## run the tests that can use a PostgreSQL server: with the race detector, pgbouncer, other versions, torture, a cluster (FOR=30s SEED=)
	GORACE=atexit_sleep_ms=0 $(SERVER) -race -timeout 2h -p 2 $(ON_SERVER) $(SURFACES)
	$(SERVER) -timeout 2h -p 2 $(PAGES)
	$(SERVER) -timeout 2h -tags hosts -skip '$(ELSEWHERE)' ./cmd/mailroom
	$(TESTS) -timeout 2h -run '^TestScriptsOnAServer$$' ./cmd/mailroom
	$(SERVER) -C otlptest -timeout 1h .
	$(TESTS) -timeout 2h -count 1 -tags postgres -run 'Version|Before14' ./orchestrator/store/postgres
	$(RACE) -timeout 2h -run '^TestPooler' ./orchestrator/store/postgres
	for mode in transaction session; do $(GO) run ./cmd/tests -pgbouncer=$$mode -short -timeout 2h -p 2 $(THROUGH_POOLER) || exit 1; done
	for version in 14 16 17 18; do $(SERVER)=$$version -short -timeout 2h -count 1 -p 2 $(ON_SERVER) $(SURFACES) $(PAGES) || exit 1; done
	$(TESTS) -timeout 2h -count 1 -tags postgres -run '^(TestTortureOnAServer|TestTortureBehindAPooler|TestHostsInNamespaces|TestCluster)$$' ./cmd/mailroom -cluster-faults 2 -torture-for '$(or $(FOR),30s)' $(if $(SEED),-torture-seed '$(SEED)')

SERVERS := orchestrator/store/postgres/testdata/servers
servers: ## install other versions of PostgreSQL than Debian's
	@cd $(SERVERS) && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --ignore-scripts --loglevel=error; }

cluster: database ## install Patroni and etcd for clusters, and iproute2 for networks between hosts
	@command -v patroni >/dev/null && command -v etcd >/dev/null && [ -x /usr/sbin/ip ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends patroni etcd-server iproute2; } || { \
		echo "patroni, etcd-server or iproute2 is missing: install them" >&2; exit 1; }

ha: tools cluster ## break a cluster of three PostgreSQL servers in every way that it must survive (a quarter of an hour)
	$(TESTS) -timeout 1h -count 1 -tags postgres -run '^TestCluster$$' ./cmd/mailroom

# SEED: repeats the run with that seed (default: a new seed). DIR: folder for all files (default: a temporary folder, which
# is kept after a violation). REPORT=1: write the report into docs/guarantees.md.
torture: build ## kill processes for a long time and check the database (FOR=10m SEED= DIR= REPORT=)
	$(GO) build -p 2 -o bin/torture ./cmd/torture
	bin/torture -program bin/mailroom -for '$(or $(FOR),10m)' $(if $(SEED),-seed '$(SEED)') $(if $(DIR),-dir '$(DIR)') \
		$(if $(REPORT),-report docs/guarantees.md)

# KILLS: number of readers on each store. PROGRAM: another program, such as an earlier version. DOORS: prefix of the ways of
# reading to test.
kills: build database ## kill readers at random moments, for every way of reading and both stores, and count lost messages (KILLS=10000 PROGRAM= DOORS= SEED=)
	$(GO) test -p 2 -count 1 -timeout 6h -v -run '^TestKilledReaders$$' ./cmd/mailroom -kills $(or $(KILLS),10000) \
		-kills-program '$(abspath $(or $(PROGRAM),bin/mailroom))' -kills-doors '$(DOORS)' $(if $(SEED),-kills-seed '$(SEED)')

# The benchmark takes an hour or more, and needs a machine that does nothing else. DIR: folder on the disk to measure, which
# keeps the large databases for the next run (default: a temporary folder in bench/).
bench: build database ## compare with other programs (CASES="sends-8 cold", ROUNDS=5, SCALE=1, DIR=) and write docs/benchmarks.md
	@command -v sqlite3 >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends sqlite3; } || \
		echo "the sqlite3 command is missing: the case cold will fail" >&2
	cd bench && $(GO) build -p 2 -o ../bin/bench . && ../bin/bench -mailroom ../bin/mailroom -docs ../docs \
		-rounds $${ROUNDS:-5} -scale $${SCALE:-1} $(if $(DIR),-dir '$(abspath $(DIR))') $$CASES

fuzz: compiler ## run every fuzz target for a short while (FUZZTIME=10s)
	@for target in $$(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's|/[^/]*:func |:|' | sort); do \
		echo "$$target"; \
		$(GO) test -p 2 -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $${FUZZTIME:-10s} $${target%%:*} || exit 1; \
	done

corpora: fuzz ## regenerate the files of malformed inputs from the fuzzer's finds (FUZZTIME=60s) and mutations
	$(GO) test -p 1 -count 1 -run '^TestMalformed' ./commands/parameter ./orchestrator/agents ./orchestrator/transport ./cmd/mailroom -corpora

# KEEP=FOLDER: keeps the recording in that folder, and uses it again in the next run.
powerloss: tools ## simulate power cuts at POINTS moments of a recording (POINTS=10000, MESSAGES=1000, SEED=)
	POINTS=$${POINTS:-10000} MESSAGES=$${MESSAGES:-1000} $(GO) test -p 2 -count 1 -timeout 2h -v -run 'TestPowerLoss' \
		./orchestrator/orchestratortest/powerloss

clean: ## remove everything that was built
	rm -rf bin dist $(CLIENTS:=/node_modules) $(SERVERS)/node_modules
