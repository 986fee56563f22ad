# make            what the targets are
# make test       everything that CI runs
SHELL := /bin/bash
GO ?= go
export CGO_ENABLED := 1

# Pinned here and not in go.mod: it would bring its own dependencies into ours.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The program is started for every command, so it is linked statically where the C library can be (Linux with a libc.a),
# which makes it start a little sooner. It cannot load extensions, and does not carry its flag library's own manuals.
# Whether that can be is asked when something is built, since the compiler may have been installed only then.
STATIC = $(and $(filter Linux,$(shell uname -s)),$(filter /%,$(shell $$($(GO) env CC) -print-file-name=libc.a 2>/dev/null)))
TAGS = urfave_cli_no_docs sqlite_omit_load_extension$(if $(STATIC), netgo osusergo)
LDFLAGS = $(if $(STATIC),-s -w -linkmode external -extldflags -static)
# Go records the commit itself, unless GOFLAGS has -buildvcs=false.
VERSION = $(shell git rev-parse HEAD 2>/dev/null)
COMMIT = $(addprefix -X main.commit=,$(VERSION))

# The sources of the phone app. What they need of npm is only for building them anew; what they build to is committed.
PHONE := commands/surface/phone
CONSOLE := commands/surface/console

# Programs of others, which the tests run against ours: MCP clients, and a decryptor of pushes. They need npm, and are
# ignored by git.
CLIENTS := cmd/mailroom/testdata/clients cmd/mailroom/testdata/hosts orchestrator/transport/testdata/ece $(PHONE)/app $(CONSOLE)/app

.DEFAULT_GOAL := help
.PHONY: help build client systems demo test test-hosts hosts compiler tools clients browsers database programs terminal statements format vet static prepared unit unit-raced unit-program unit-plain unit-served unit-others test-long test-postgres ha cluster servers phone pictures screenshots dist packers test-dist plugins bench torture fuzz corpora powerloss clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

# SQLite is a quarter of a million lines of C, compiled once for each set of flags ($(1)) and then kept in Go's cache.
announce = @if [ "$$($(GO) list -f '{{.Stale}}' $(1) github.com/mattn/go-sqlite3)" = true ]; then \
	echo "Compiling SQLite and Mailroom: a minute or two this time, seconds from then on"; fi

build: compiler ## build bin/mailroom
	$(call announce,-trimpath -tags '$(TAGS)')
	$(GO) build -p 2 -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS) $(COMMIT)' -o bin/mailroom ./cmd/mailroom

# The client has no SQLite and needs no C: it uses databases on other machines and on servers.
SYSTEMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
# Those that make test compiles: one of each system, since no file is of one architecture alone.
COMPILED := darwin/arm64 windows/amd64
client: ## build bin/mailroom-client, without SQLite, for this machine or another (GOOS=darwin GOARCH=arm64)
	CGO_ENABLED=0 $(GO) build -p 2 -trimpath -tags 'client urfave_cli_no_docs' -ldflags '-s -w $(COMMIT)' -o bin/mailroom-client$(if $(filter windows,$(GOOS)),.exe) ./cmd/mailroom

# go list -export compiles all, and does not link, which is most of what a build takes once all is compiled.
systems: ## compile the client for other systems (COMPILED="linux/arm64 ...")
	@for system in $(COMPILED); do \
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) list -p 2 -export -tags client ./cmd/mailroom >/dev/null || exit 1; done

demo: build ## run the demo: agents, messages, a ladder climbed, the trace
	bin/mailroom demo

test: prepared format ## all checks and all tests
	@$(MAKE) --no-print-directory -j 2 vet static systems $(UNITS)

compiler: ## install a C compiler where that is possible, and say what is missing
	@command -v $(GO) >/dev/null || { echo "Go 1.26 or later is missing: see https://go.dev/doc/install" >&2; exit 1; }
	@cc=$$($(GO) env CC); cc=$${cc%% *}; command -v $$cc >/dev/null && exit 0; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -q && apt-get install -qy --no-install-recommends gcc libc6-dev; \
	else \
		echo "a C compiler ($$cc) is missing: SQLite is compiled from source. Install gcc or clang" >&2; exit 1; \
	fi

# Debian starts an ssh server that it installs, so only CI installs one.
tools: compiler ## install strace, git, valgrind, ruby and iproute2 as well, which tests need
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

# Without npm or its registry the tests that need them are left out. CI must have them; others are told.
clients: ## install the programs of others that the tests run
	@command -v npm >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends npm; } || true
	@for folder in $(CLIENTS); do \
		( cd $$folder && { [ node_modules/.package-lock.json -nt package-lock.json ] || { echo "installing what $$folder needs of npm"; npm ci --ignore-scripts --loglevel=error; }; } ) || { \
			[ -z "$$CI" ] && echo "NOT TESTED with $$folder: npm could not install it; CI will" >&2; } || exit 1; \
	done

# Firefox finds libnotify by itself, to show notifications on a bus of the test's. Without the browsers their tests are left
# out. CI must have them; others are told.
browsers: ## install the browsers that the tests of the phone app drive
	@missing=$$(for p in firefox-esr chromium chromium-headless-shell dbus-daemon; do command -v $$p >/dev/null || echo $$p; done; \
		PATH=$$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q 'libnotify\.so\.4' || echo libnotify4); \
	[ -z "$$missing" ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends firefox-esr chromium chromium-headless-shell dbus libnotify4; } || { \
		[ -z "$$CI" ] && echo "NOT TESTED in browsers:" $$missing "not installed; CI will" >&2; }

# Without it its tests are left out. CI must have it; others are told.
database: ## install the PostgreSQL server that the tests start, and pgbouncer
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && [ -x /usr/sbin/pgbouncer ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends postgresql pgbouncer; } || { \
		[ -z "$$CI" ] && echo "NOT TESTED with PostgreSQL: it is not installed; CI will" >&2; }

# Without one of them the pages that use it are left out. CI must have them; others are told.
programs: ## install the programs that commands in README.md and docs use, and the shells that complete commands
	@missing=$$(for p in curl jq sqlite3 zsh fish; do command -v $$p >/dev/null || echo $$p; done); \
	[ -z "$$missing" ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends $$missing; } || { \
		[ -z "$$CI" ] && echo "NOT TESTED: pages and completions that use" $$missing "which are not installed; CI will" >&2; }

terminal: ## install tmux, in which the tests of agent hosts type what a person would
	@command -v tmux >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends tmux; } || { \
		echo "tmux is missing: agent hosts cannot be tested in a terminal. Install it" >&2; exit 1; }

# SQLite is compiled for each set of flags that the tests use, on one core: all at once, while what tests need comes over the network.
LIBRARIES := ./commands/... ./orchestrator/... ./tracing/...
prepared: compiler
	$(call announce)
	@$(GO) build -p 2 $(LIBRARIES) & plain=$$!; \
	$(GO) build -p 2 -race $(LIBRARIES) & race=$$!; \
	$(GO) run $(STATICCHECK) -version >/dev/null 2>&1 & \
	$(MAKE) --no-print-directory tools clients browsers database programs && wait $$plain && wait $$race

# The packages whose tests open an engine.
ENGINE := adoption agents bridge bridge/letters delivery exports hosts ledger messages overview questions reading removal retention router \
	sessions store/sqlite store/sqlite/tables teams threads traffic

# The packages whose tests open their databases with enginetest, so that they run on a PostgreSQL server, too. The
# vocabularies' matrix is the tests of cmd/mailroom that ask several vocabularies of one database.
ON_SERVER := $(patsubst %,./orchestrator/%,adoption agents delivery exports hosts ledger messages overview person questions reading removal retention router \
	sessions teams threads traffic) ./commands/admin ./commands/surface/hook
SURFACES := $(patsubst %,./commands/%,coral surface/cli surface/daemon surface/mcp surface/web)
PAGES := $(patsubst %,./commands/surface/%,console phone)
MATRIX := ^Test(Vocabular|EveryVocabulary|Ralph|Alert|Answer|ForgedAnswer|Malformed.*User|OnlyThePhones|QuestionByHand|Strangers|WhatDoesNotFit)
# The tests of cmd/mailroom that have no database, or one of their own.
ELSEWHERE := ^Test(Scripts|Pages|GoPage|Screens|Picture|Torture|KilledReaders|ManyHosts|SignalOnManyHosts|Cards|MalformedLines|Links|Imports|Folders|Everything|Goroutines|Statements)
SERVER := $(GO) run ./cmd/tests -postgres
THROUGH_POOLER := $(patsubst %,./orchestrator/%,adoption delivery exports hosts ledger messages questions reading router sessions threads traffic)

statements: ## collect the statements of the engine anew, and how SQLite runs the hot ones; look at what git says that changed
	: >orchestrator/orchestratortest/statements/statements.sql
	$(GO) test -p 1 -count 1 $(ENGINE:%=./orchestrator/%) ./commands/admin ./commands/connect ./commands/surface/daemon ./commands/surface/mcp ./commands/surface/web -statements
	$(GO) test -count 1 -short -timeout 30m ./cmd/mailroom -statements
	$(GO) test -count 1 -run '^TestPlans$$' ./orchestrator/orchestratortest/statements -update

console: ## build the console's page anew (commands/surface/console/app to www); commit what it writes
	cd $(CONSOLE)/app && npm ci --ignore-scripts --loglevel=error
	$(GO) test -count 1 -run '^TestBundle$$' ./$(CONSOLE) -update

phone: ## build the phone app anew (commands/surface/phone/app to www); commit what it writes
	for app in $(PHONE) $(CONSOLE); do ( cd $$app/app && npm ci --ignore-scripts --loglevel=error ) || exit 1; done
	$(GO) test -count 1 -run '^TestIcons$$' ./$(PHONE) -update
	$(GO) test -count 1 -run '^TestBundle$$' ./$(PHONE) -update

pictures: tools screenshots ## take the pictures of README.md: two agents in their terminals, the phone app and the console
	$(GO) test -count 1 -run '^TestPicture$$' ./cmd/mailroom -pictures

screenshots: ## take the pictures in docs/phone and docs/console with Chromium
	$(GO) test -count 1 -run '^TestScreenshots$$' ./$(PHONE) -screenshots
	$(GO) test -count 1 -run '^TestConsoleOfDemo$$' ./cmd/mailroom -screenshots

# The tests that run real agent hosts. `make test` has the main ones of each host, the tag has all.
HOSTTESTS = $(RACE) -timeout 1h -count 1 -tags hosts -run '^Test(Claude|Codex|Gemini|OpenCode|Pi|Qwen|Copilot|Hosts)' ./cmd/mailroom

test-hosts: tools clients terminal ## all tests with the real agent hosts: Claude Code, Codex, Gemini CLI, OpenCode, Kilo, pi, Qwen Code, Copilot CLI
	MAILROOM_TEST_HOSTS=testdata/hosts $(HOSTTESTS)

# pi and Qwen Code are no optional dependencies there: npm leaves those out that want a newer node than its own.
# They go into a folder of their own, beside the versions that testdata/hosts pins for what VERSIONS does not name.
HOSTS := @anthropic-ai/claude-code-linux-x64 @github/copilot-linux-x64 @earendil-works/pi-coding-agent @google/gemini-cli @kilocode/cli-linux-x64 @openai/codex @qwen-code/qwen-code opencode-linux-x64-baseline
hosts: tools terminal ## test-hosts with other versions of them (VERSIONS=latest, or VERSIONS="@openai/codex@0.169.0 ...")
	rm -rf bin/hosts && mkdir -p bin/hosts && cp cmd/mailroom/testdata/hosts/{.npmrc,package.json,package-lock.json} bin/hosts
	cd bin/hosts && npm install --ignore-scripts --save-exact --loglevel=error $(if $(filter latest,$(or $(VERSIONS),latest)),$(HOSTS:=@latest),$(VERSIONS))
	@cd bin/hosts && echo "testing with:" && npm ls --depth 0 | tail -n +2
	@MAILROOM_TEST_HOSTS="$(CURDIR)/bin/hosts" $(HOSTTESTS) && verdict=passed || verdict=FAILED; \
	cd bin/hosts && echo "$$verdict with:" && npm ls --depth 0 | tail -n +2; [ $$verdict = passed ]

# The architectures to build packages for. For another than this machine's it takes Debian's cross compiler, and QEMU, by which the
# program is started once.
ARCHES ?= amd64 arm64
dist: packers ## build the files that users install into dist/ (ARCHES="amd64 arm64" SYSTEMS="darwin/arm64 ..." URL=https://... KEY=FILE)
	cd packaging && $(GO) run . -out ../dist -clients '$(SYSTEMS)' -url '$(URL)' -key '$(abspath $(KEY))' $(ARCHES)

packers: compiler ## install what `make dist` needs: git, cross compilers, an emulator
	@command -v dpkg-query >/dev/null || { echo "packages are built on Debian or what descends from it: dpkg is missing" >&2; exit 1; }
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

test-dist: packers ## as root: install, use and purge the .deb in a fresh Debian, build the image, and build in a bare Debian
	@[ "$$(id -u)" = 0 ] || { echo "a fresh Debian is made by debootstrap, which only root can run" >&2; exit 1; }
	@command -v debootstrap >/dev/null && command -v buildah >/dev/null || { export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -q && apt-get install -qy --no-install-recommends debootstrap buildah; }
	cd packaging && $(GO) test -count 1 -timeout 1h -tags dist -run '^TestDist' -v .

plugins: build ## write a plugin of Claude Code and an extension of Gemini CLI into dist/
	$(GO) run ./cmd/plugins dist "$$(bin/mailroom --version | sed 's/.* //')"

format:
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	[ -z "$$files" ] || { echo "not formatted with gofmt:" $$files >&2; exit 1; }

# The tags add files and take none away.
vet:
	$(call announce)
	$(GO) vet -p 2 -tags hosts,postgres ./...
	cd bench && $(GO) vet -p 2 ./...
	cd otlptest && $(GO) vet -p 2 ./...
	cd packaging && $(GO) vet -p 2 -tags dist ./...

# Without a network it may be impossible to have staticcheck. CI must have it; others are told.
static:
	@if [ -n "$$CI" ] || $(GO) run $(STATICCHECK) -version >/dev/null 2>&1; then \
		echo "$(GO) run $(STATICCHECK) -tags hosts,postgres ./..."; $(GO) run $(STATICCHECK) -tags hosts,postgres ./... && \
		for module in bench otlptest packaging; do ( cd $$module && $(GO) run $(STATICCHECK) -tags dist ./... ) || exit 1; done; \
	else \
		echo "NOT CHECKED: $(STATICCHECK) could not be fetched or built; CI will run it" >&2; \
	fi

# cmd/tests says what goes on, and ends a run in which a test stands still for five minutes.
TESTS := $(GO) run ./cmd/tests
RACE := GORACE=atexit_sleep_ms=0 $(TESTS) -race

# The race detector makes tests several times dearer: it is for the packages in which goroutines meet, and for the tests of the surfaces
# and of the program that serve many at once.
RACED := $(patsubst %,./%,commands/surface/daemon \
	$(addprefix orchestrator/,store/postgres store/sqlite transport bridge delivery reading messages watchdog program store store/bell))
MEETING := ^Test(Many|Client|Waiter|Answer|Abandoned|Newest|IDUsed|IDOfAWait|Listen|Inbox|Subscriptions|Events|Streams|Slow|Revoked|CalledOff|StandardInput)
SERVING := ^Test(Serve|MCP|Daemon|Contention)

# Which of the others take longest. They begin first, so that in the end no core waits for one of them.
LONGEST := ./commands/surface/console ./commands/surface/phone ./orchestrator/move ./orchestrator/router ./orchestrator/orchestratortest

# What of the engine runs on a server, too; the rest does with test-postgres.
TWICE := $(patsubst %,./orchestrator/%,delivery reading messages router hosts)

# Tests wait for processes, disks and browsers most of the time, so that several run for each core. `make vet` looks at all of them
# meanwhile, so that go test need not.
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

test-long: tools clients browsers database programs ## all tests at their full length, with the race detector; the packages
	$(RACE) -timeout 2h -p 2 ./...
	$(TESTS) -C packaging -vet=off -timeout 1h -p 2 ./...

# FOR: how long the torture goes on. SEED: which of all its runs.
test-postgres: compiler tools clients browsers programs terminal cluster servers ## all tests that can run on a PostgreSQL server, there, with the race detector; through pgbouncer; other versions; the torture, a cluster (FOR=30s SEED=)
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
servers: ## install PostgreSQL servers of other versions than Debian's
	@cd $(SERVERS) && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --ignore-scripts --loglevel=error; }

cluster: database ## install Patroni and etcd, of which the tests run clusters, and iproute2 for networks between hosts
	@command -v patroni >/dev/null && command -v etcd >/dev/null && [ -x /usr/sbin/ip ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && \
		apt-get update -q && apt-get install -qy --no-install-recommends patroni etcd-server iproute2; } || { \
		echo "patroni, etcd-server or iproute2 is missing: install them" >&2; exit 1; }

ha: tools cluster ## do to a cluster of three PostgreSQL servers whatever it must survive; takes a quarter of an hour
	$(TESTS) -timeout 1h -count 1 -tags postgres -run '^TestCluster$$' ./cmd/mailroom

# SEED: which of all runs (a new one). DIR: where everything goes (a temporary folder, kept when something was violated).
# REPORT=1: write the report into docs/guarantees.md.
torture: build ## kill processes for a long time and check what is left (FOR=10m SEED= DIR= REPORT=)
	$(GO) build -p 2 -o bin/torture ./cmd/torture
	bin/torture -program bin/mailroom -for '$(or $(FOR),10m)' $(if $(SEED),-seed '$(SEED)') $(if $(DIR),-dir '$(DIR)') \
		$(if $(REPORT),-report docs/guarantees.md)

# KILLS: how many readers on each store. PROGRAM: another than this one, such as one of before. DOORS: only those whose names begin so.
kills: build database ## kill readers at random moments, at every door and on both stores, and count what nobody saw (KILLS=10000 PROGRAM= DOORS= SEED=)
	$(GO) test -p 2 -count 1 -timeout 6h -v -run '^TestKilledReaders$$' ./cmd/mailroom -kills $(or $(KILLS),10000) \
		-kills-program '$(abspath $(or $(PROGRAM),bin/mailroom))' -kills-doors '$(DOORS)' $(if $(SEED),-kills-seed '$(SEED)')

# It takes about an hour, and wants a machine that does nothing else. DIR: a folder on the disk to measure, which keeps the
# large databases for the next time (a temporary one in bench/).
bench: build database ## measure beside the peers (CASES="sends-8 cold", ROUNDS=5, SCALE=1, DIR=) and write docs/benchmarks.md
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

corpora: fuzz ## make the files of malformed inputs anew, from what the fuzzer finds (FUZZTIME=60s) and mutations
	$(GO) test -p 1 -count 1 -run '^TestMalformed' ./commands/parameter ./orchestrator/agents ./orchestrator/transport ./cmd/mailroom -corpora

# With KEEP=FOLDER the recording stays there, and is used again the next time.
powerloss: tools ## cut the power at POINTS moments of a recording (POINTS=10000, MESSAGES=1000, SEED=)
	POINTS=$${POINTS:-10000} MESSAGES=$${MESSAGES:-1000} $(GO) test -p 2 -count 1 -timeout 2h -v -run 'TestPowerLoss' \
		./orchestrator/orchestratortest/powerloss

clean: ## remove what was built
	rm -rf bin dist $(CLIENTS:=/node_modules) $(SERVERS)/node_modules
