# Weir. `make up` starts it, `make test` tests it; the other targets are for contributors.

.PHONY: needed build up demo test check bench soak web dist deb docs long fuzz help
.DEFAULT_GOAL := help

WEB := crates/weir-console/web
BUNDLE := crates/weir-console/assets/app.js
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
DIST := dist/weir-$(VERSION)-$(TARGET)
comma := ,

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

needed:
	@scripts/prerequisites build

build: needed web
	@[ -x target/release/weir ] || echo "compiling Weir: about 8 minutes on two cores the first time" >&2
	cargo build --release --locked -p weir

up: build ## build Weir and start it with a sample app, with its data in ./data
	@exec scripts/up

demo: build ## build Weir and start it with an app, workers and clients; `target/release/weir demo flood` in a second terminal: 50 times the traffic
	@exec target/release/weir demo

web: ## build the console's charts, where npm is
	@if [ -d $(WEB) ] && scripts/prerequisites web; then $(MAKE) --no-print-directory $(BUNDLE); fi

$(BUNDLE): $(shell find $(WEB) -type f -not -path '*/node_modules/*' 2>/dev/null)
	npm --prefix $(WEB) ci --no-audit --no-fund --loglevel error
	npm --prefix $(WEB) run build
	@touch $(BUNDLE)

test: needed web ## run every test: Rust, real clients, a browser
	@e2e/setup
	@if [ -f e2e/browser/package.json ]; then npm --prefix e2e/browser ci --silent --no-audit --no-fund; fi
	@cargo run --quiet --locked -p xtask -- test

check: ## format, lints, dependency edges, licences, docs, dashboards, alert rules
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	cargo run --quiet --locked -p xtask -- edges
	cargo run --quiet --locked -p xtask -- licences
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --log-level error check licenses bans sources; fi
	cargo run --quiet --locked -p xtask -- docs
	cargo run --quiet --locked -p xtask -- words
	cargo run --quiet --locked -p xtask -- dashboards
	cargo run --quiet --locked -p xtask -- openapi
	@if promtool --version >/dev/null 2>&1; then promtool test rules e2e/prometheus/*.test.yml; fi

bench: ## compare all parts with their peers in one run of about 40 minutes, and write the table in docs/benchmarks.md (BENCH_FAKTORY=PROGRAM, BENCH_PITCHFORK=FOLDER: those as well; PARTS=jobs,realtime,front,gems)
	cargo build --profile dist --locked -p weir -p weir-bench
	scripts/bench-all $(subst $(comma), ,$(PARTS))

soak: needed ## load all parts of one node and of three for an hour, with a fault every minute; fails if anything was lost, repeated or has grown (SOAK=10m, SHAPES=one; root permits more faults)
	cargo build --release --locked -p weir -p weir-bench
	scripts/soak $(or $(SOAK),1h) $(SHAPES)

long: ## the long runs: 50 power cuts of Redis in 10 set-ups (WEIR_VALKEY names a server with WAITAOF), 100 kills under load, 50 kills of Weir or a backup with a restore after each, the autopilot of Sidekiq beside a slow Postgres, 10,000 simulated disks, 10 minutes of broken connections, 30 faults of each of 5 kinds under realtime's load, 10 of hostile HTTP, restarts and upgrades under load, a storm of 10,000 webhooks, real drains of Sidekiq, 100,000 jobs each way and 50 kills beside Sidekiq, a rolling upgrade (WEIR_PREVIOUS names the older program), the install script, 10 minutes of `make soak` with each shape, the package (WEIR_PREVIOUS_DEB names the older one)
	WEIR_POWER_CUTS=50 cargo test --release --locked -p weir-sidekiq --test it -- --nocapture --test-threads 1 power_cut
	WEIR_CRASH_KILLS=100 cargo test --release --locked -p weir --test it -- --nocapture crash
	WEIR_BACKUP_KILLS=50 cargo test --release --locked -p weir --test it -- --nocapture backup::backups_are_exact
	cargo test --release --locked -p weir --test it -- --ignored --nocapture --test-threads 1 autopilot::sidekiq
	WEIR_SIMULATION_RUNS=10000 cargo test --release --locked -p weir-jobs --lib -- --nocapture simulation
	WEIR_HOSTILE_SECONDS=600 cargo test --release --locked -p weir --test it -- --nocapture front::hostile
	cargo build --release --locked -p weir
	scripts/trial-install target/release/weir
	WEIR_BIN=target/release/weir e2e/run docs
	$(if $(WEIR_PREVIOUS_DEB),$(MAKE) --no-print-directory deb BIN=target/release/weir REVISION=2 && scripts/trial-deb $(abspath $(WEIR_PREVIOUS_DEB)) dist/weir_$(VERSION)-2_*.deb && scripts/trial-deb-systemd $(abspath $(WEIR_PREVIOUS_DEB)) dist/weir_$(VERSION)-2_*.deb)
	scripts/trials-front
	WEIR_BIN=target/release/weir e2e/.venv/bin/python e2e/python/front/restarts.py 100 20
	WEIR_BIN=target/release/weir python3 e2e/python/gems/storm.py 10000 5
	WEIR_DRAIN=long cargo test --release --locked -p weir --test it -- --nocapture --test-threads 1 doctor::drain
	$(if $(WEIR_PREVIOUS),WEIR_PREVIOUS="$(abspath $(WEIR_PREVIOUS))" )WEIR_UPGRADE_SECONDS=30 WEIR_BIN=target/release/weir WEIR_SIDEKIQ_JOBS=100000 WEIR_SIDEKIQ_KILLS=50 e2e/.venv/bin/python e2e/python/run.py sidekiq
	$(if $(SIDEKIQ_BIN),WEIR_BIN=target/release/weir PATH="$(SIDEKIQ_BIN):$$PATH" RUBYLIB="$(firstword $(SIDEKIQ_LIBS))" e2e/.venv/bin/python e2e/python/run.py sidekiq)
	$(if $(SIDEKIQ_LIBS),WEIR_SIDEKIQ_LIBS="$(SIDEKIQ_LIBS)" )cargo test --release --locked -p weir-sidekiq --test it -- --nocapture class_metrics::sidekiqs_own_query
	$(if $(WEIR_PREVIOUS),WEIR_PREVIOUS="$(abspath $(WEIR_PREVIOUS))" cargo test --release --locked -p weir --test it -- --nocapture realtime::versions)
	WEIR_REALTIME_FAULTS=30 cargo test --release --locked -p weir-realtime-redis --test it -- --nocapture --test-threads 1 fault_rounds
	WEIR_CHAOS_SECONDS=600 cargo test --release --locked -p weir-realtime --test it -- --nocapture chaos
	$(MAKE) --no-print-directory soak SOAK=10m

fuzz: ## list the fuzz targets, or run them (FUZZ=all or FUZZ=CRATE/TARGET, SECONDS=60)
	@scripts/fuzz $(if $(FUZZ),$(FUZZ) $(or $(SECONDS),60))

docs: ## write the pages of docs/reference and the dashboard that come from the code, and a site of all pages to target/docs-site
	cargo build --quiet --locked -p weir
	target/debug/weir reference settings > docs/reference/settings.md
	target/debug/weir reference schema > docs/reference/weir.schema.json
	target/debug/weir reference cli > docs/reference/cli.md
	cargo run --quiet --locked -p xtask -- openapi write
	cargo run --quiet --locked -p xtask -- dashboards write
	cargo run --quiet --locked -p xtask -- site target/docs-site

# The linker keeps one copy of functions with the same code. Rust uses lld on x86_64 only; GNU ld does not know it.
ICF := $(if $(filter x86_64-%,$(TARGET)),-- -C link-arg=-Wl$(comma)--icf=all)

dist: needed web ## an archive to install from, with its SHA-256
	@scripts/prerequisites web
	cargo rustc --profile dist --locked -p weir $(ICF)
	mkdir -p dist
	objcopy --only-keep-debug target/dist/weir $(DIST).debug
	objcopy --strip-all --add-gnu-debuglink=$(DIST).debug target/dist/weir $(DIST).program
	scripts/dist-tree $(DIST).program $(DIST)
	rm $(DIST).program
	scripts/archive $(DIST)

deb: ## a Debian package of what `make dist` has built (BIN=PROGRAM: of that program; REVISION=1)
	$(if $(BIN),scripts/dist-tree $(BIN) dist/deb $(XTASK))
	@scripts/deb $(if $(BIN),dist/deb,$(DIST)) dist $(VERSION)
