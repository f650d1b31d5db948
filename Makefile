# `make` alone lists the targets; each has one line behind `##`.
.DEFAULT_GOAL := help
SHELL := bash

# Where `make tools` links the programs of the local world.
BIN := $(CURDIR)/bin

.PHONY: help
help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools: ## Build the local world into bin/: etcd, kube-apiserver, kubectl, Cluster API core, moto (minutes once)
	@hack/tools/build.sh "$(BIN)"
