# `make` alone lists the targets; each has one line behind `##`.
.DEFAULT_GOAL := help
SHELL := bash

# Where `make tools` links the programs of the local world.
BIN := $(CURDIR)/bin

.PHONY: help
help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools: ## Build the local world into bin/: Kubernetes, Cluster API with kubeadm and clusterctl, moto (minutes once)
	@set -o pipefail; hack/tools/build.sh "$(BIN)" $(TOOLS_OUTPUT)

# Everything below is built in one way: all members of the workspace with one set of features, and with clippy-driver
# as the compiler of the workspace's own crates. So build, lint, tests and quickstart share every compiled crate, and
# linting costs no second pass. Warnings are errors here, and only here: plain `cargo` stays lenient while you work.
LINTED := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings
CARGO := $(LINTED) cargo
# Where cargo puts programs; asked only when a recipe needs it.
TARGET = $(shell cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
PROGRAMS = $(TARGET)/debug
# Integration tests that need no local world: all but the stories of e2e/.
UNIT_TESTS := $(patsubst %,--test %,$(basename $(notdir $(filter-out e2e/%,$(wildcard tests/*.rs */tests/*.rs)))) \
  $(notdir $(patsubst %/main.rs,%,$(filter-out e2e/%,$(wildcard tests/*/main.rs */tests/*/main.rs)))))

# $(call run_tests,arguments of cargo test[,arguments of the test programs])
run_tests = @$(LINTED) hack/tests/run.sh --workspace $(1) -- $(2)

.PHONY: require-rust
require-rust:
	@hack/tools/require.sh cargo clippy-driver cc

.PHONY: check-format
check-format: require-rust
	cargo fmt --all --check

.PHONY: build
build: require-rust ## Build everything, tests included, with the lints as errors
	$(CARGO) build --workspace --bins --tests

.PHONY: programs
programs: require-rust
	$(CARGO) build --workspace --bins

# Go and Rust are compiled at the same time: neither keeps two cores busy by itself. The tools then say in lines, not in
# place, how far they are, because they share the terminal with cargo.
.PHONY: tools-and-programs tools-and-build
tools-and-programs tools-and-build: tools-and-%:
	@$(MAKE) --no-print-directory --jobs=2 tools $* TOOLS_OUTPUT='| cat'

.PHONY: generate
generate: programs ## Write config/crd, a policy, templates/ and the lists in docs/ from types, tables and parts
	"$(PROGRAMS)/capa-rs" crds --output-dir config/crd --policy-dir config/policy
	"$(PROGRAMS)/capa-rs" unsupported-fields --update docs/fields-without-effect.md
	"$(PROGRAMS)/capa-rs" iam --update docs/iam.md
	"$(PROGRAMS)/capa-rs" preflight-rules --update docs/preflight.md
	hack/release/templates.sh templates

# What a release is called, and where its image lies: set IMAGE to what your cluster can pull. clusterctl takes no name
# without a host.
VERSION ?= v$(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
IMAGE ?= localhost/capa-rs:$(VERSION)
DIST := dist

.PHONY: release-manifests
release-manifests: tools ## Write a repository for clusterctl into dist/: components, templates (VERSION=, IMAGE=)
	@hack/release/render.sh "$(DIST)" "$(VERSION)" "$(IMAGE)"

.PHONY: fmt
fmt: require-rust ## Format the code
	cargo fmt --all

.PHONY: lint
lint: check-format build ## Check the format and build with the lints as errors

.PHONY: test-go
test-go: ## Vet and test the Go programs of the local world; seconds, and cached
	@hack/tools/require.sh go
	cd hack/tools/etcd-stub && GOWORK=off go vet ./... && GOWORK=off go test ./...
	cd e2e/upstream && GOWORK=off CGO_ENABLED=0 go vet .

.PHONY: upstream-specs
upstream-specs: ## Build Cluster API's own end-to-end specs into bin/ (minutes once, then cached)
	@hack/tools/require.sh go
	@mkdir -p "$(BIN)"
	@cd e2e/upstream && unformatted="$$(gofmt -l .)" && { [ -z "$$unformatted" ] || \
	  { echo "gofmt would change: $$unformatted" >&2; false; }; }
	cd e2e/upstream && GOWORK=off CGO_ENABLED=0 go test -c -o "$(BIN)/upstream-specs" .

.PHONY: cloud-init
cloud-init: ## Fetch the versions of cloud-init that the boot hook is tried on into bin/ (on Debian)
	@hack/tools/cloud-init/build.sh "$(BIN)/cloud-init"

.PHONY: capa
capa: tools ## Build CAPA's own manager into bin/, with which a long story compares this provider (minutes once, then cached)
	@hack/tools/cluster-api-provider-aws/build.sh "$(BIN)"

.PHONY: fleet-tools
fleet-tools: ## Build a Karmada control plane and a consumer of ClusterProfiles into bin/ (minutes once, then cached)
	@hack/tools/karmada/build.sh "$(BIN)"
	@hack/tools/cluster-inventory/build.sh "$(BIN)"

# More stories at once than there are cores: many only wait, and those that work take turns (e2e/src/turn.rs).
THREADS := --test-threads=$(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 8 ? cores : 8)))

# What the gate leaves to the night: long stories, and stories that measure real time, which run one at a time.
WITHOUT_NIGHTLY := --skip long_stories:: --skip timed_stories::

.PHONY: test
test: ## Run what CI runs: format, lints, unit, property, API and end-to-end tests
	@+hack/tests/phases.sh check-format tools-and-build test-go gate-tests

.PHONY: gate-tests
gate-tests: tools
	$(call run_tests,--tests,$(WITHOUT_NIGHTLY) $(THREADS))

.PHONY: test-unit
test-unit: require-rust ## Run the tests that need no local world
	$(call run_tests,--lib --bins $(UNIT_TESTS),$(WITHOUT_NIGHTLY))

.PHONY: test-all
test-all: ## Run `make test`, the mutants, the long stories, Cluster API's specs, the ratios of `make bench` and quickstart
	@+hack/tests/phases.sh --keep-going test sim-mutants sim-tests long-tests timed-tests bench-lives bench-troubles quickstart

.PHONY: long-tests
long-tests: tools-and-build upstream-specs cloud-init capa fleet-tools
	$(call run_tests,--tests,::long_stories:: $(THREADS))

.PHONY: timed-tests
timed-tests: tools-and-build
	$(call run_tests,--test e2e,timed_stories:: --test-threads=1)

.PHONY: test-fleet
test-fleet: tools-and-build fleet-tools ## Run the stories about fleet engines on a real Karmada
	$(call run_tests,--test e2e,stories::cluster_profiles stories::karmada stories::member_checks $(THREADS))

# FOCUS=kcp-adoption runs the spec with this label. docs/contributing/upstream.md lists them.
UPSTREAM = stories::upstream::long_stories::
.PHONY: check-focus
check-focus:
	@$(if $(FOCUS),grep -q 'Label("$(FOCUS)")' e2e/upstream/specs_test.go || \
	  { echo "FOCUS=$(FOCUS) is the label of no spec in e2e/upstream/specs_test.go" >&2; exit 1; },:)

.PHONY: test-upstream
test-upstream: check-focus tools-and-build upstream-specs ## Run Cluster API's own end-to-end specs (FOCUS=label of one)
	$(call run_tests,--test e2e,$(if $(FOCUS),--exact $(UPSTREAM)$(subst -,_,$(FOCUS)),$(UPSTREAM)) $(THREADS))

# SEEDS=100000 plays so many seeds, SEED=7 one with its trace, FAULTS=3:CrashAfter,7:Stale one machine's life with them.
# FIRST=1000 begins with that seed, COVERAGE=1 prints which share of the histories has met what.
SIM_ARGUMENTS = $(if $(SEED),--seed $(SEED),$(if $(FAULTS),--faults $(FAULTS),--seeds $(or $(SEEDS),1000) \
  --first $(or $(FIRST),0) $(if $(COVERAGE),--coverage)))

.PHONY: sim
sim: require-rust ## Play simulated histories: SEEDS=100000 so many, SEED=7 one with its trace
	@$(CARGO) build --profile sim --package capa-simulation --bin sim
	@"$(TARGET)/sim/sim" $(SIM_ARGUMENTS)

# Compiled like `make sim`: in the build of the other tests these histories take more than five times as long.
.PHONY: sim-tests
sim-tests: require-rust
	@$(LINTED) hack/tests/run.sh --profile sim --package capa-simulation --tests -- long_stories::

.PHONY: sim-mutants
sim-mutants: require-rust ## Break launch, ownership, absence, draining, addresses or secrets by each patch and see the simulation find it
	@hack/tools/require.sh git patch
	@simulation/mutants/check.sh "$(dir $(PROGRAMS))"

# MUTANTS="--re cloud/src/limits" breaks these files only; `cargo mutants --help` lists the arguments.
.PHONY: mutants
mutants: ## Break the pure files expression by expression, and show what no test notices (cargo-mutants; hours)
	@hack/tools/require.sh cargo cargo-mutants cc git patch python3
	@simulation/mutants/survivors.sh "$(dir $(PROGRAMS))" $(MUTANTS)

.PHONY: quickstart
quickstart: tools-and-programs ## Bring a cluster up on the local world, let it grow, heal and go (KEEP=1 keeps it; FLAVOR=)
	@"$(PROGRAMS)/quickstart"

# PROGRAM=target/debug/capa-rs measures another program than the release, which takes long to compile: it shares nothing
# with the other builds. BENCH="--workers 10 --only inline" passes arguments; docs/benchmarks.md says which there are.
# BESIDE=capa measures CAPA, too.
.PHONY: bench
bench: tools-and-programs $(filter capa,$(BESIDE)) ## Measure what machines cost, on the local world (BENCH=, BESIDE=capa, PROGRAM=)
	@$(if $(PROGRAM),:,cargo build --release --package capa-rs --bin capa-rs)
	@"$(PROGRAMS)/bench" --program "$(or $(PROGRAM),$(TARGET)/release/capa-rs)" $(if $(BESIDE),--beside $(BESIDE)) $(BENCH)

# The ratios that do not depend on how the program is optimised: calls, writes, and times that AWS's rates determine.
.PHONY: bench-lives
bench-lives: tools-and-programs capa
	@"$(PROGRAMS)/bench" --program "$(PROGRAMS)/capa-rs" --workers 100 --only inline,existing --idle 300 --beside capa

.PHONY: bench-troubles
bench-troubles: tools-and-programs
	@"$(PROGRAMS)/bench" --program "$(PROGRAMS)/capa-rs" --workers 100 --only secrets,buckets,minute,image --minutes 7

.PHONY: rustdoc
rustdoc: ## Build the documentation of all files, private ones too, into target/doc
	$(CARGO) doc --workspace --no-deps --document-private-items

.PHONY: docs
docs: ## Build the documentation as a book into target/book (needs mdbook)
	@hack/tools/require.sh mdbook
	mdbook build

.PHONY: deny
deny: ## Check licences, banned crates and sources of all dependencies (needs cargo-deny)
	@hack/tools/require.sh cargo cargo-deny
	cargo deny check licenses bans sources

.PHONY: clean
clean: ## Remove what was built in this checkout (the caches outside it stay)
	rm -rf target bin dist .quickstart
