# What people run by hand. The work is done by scripts/; this file names it.

MANIFEST ?= examples/takeover.yaml
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help up test lint unit e2e e2e-operator build generate bench bench-migrate bench-freeze soak soak-operator dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make up MANIFEST=examples/fresh.yaml    another manifest"
	@echo "  make up ONCE=1                          end after the marker is written"
	@echo "  make e2e ARGS='-k minio_py -x'          some of the end-to-end tests"

up: ## take over the example drive and serve it on 127.0.0.1:9000
	@scripts/up $(MANIFEST) $(if $(ONCE),--once) $(ARGS)

test: ## all tests: lint, unit tests, static binaries, end-to-end tests, the operator on a real cluster
	@scripts/test

lint: ## formatting, clippy, dependency rules
	@scripts/bootstrap build
	@scripts/lint

unit: ## Rust tests (ARGS='-p filestore-store name')
	@scripts/bootstrap build
	@. scripts/env.sh && cargo test --locked $(or $(ARGS),--workspace)

e2e: ## end-to-end tests through real clients and servers (ARGS for pytest)
	@scripts/bootstrap test
	@scripts/e2e $(ARGS)

e2e-operator: ## the operator's end-to-end tests, on the cluster of KUBECONFIG or on a one-node Kubernetes started for them (ARGS for pytest)
	@scripts/bootstrap $(if $(KUBECONFIG),test,cluster)
	@scripts/e2e-operator $(ARGS)

build: ## the binary for this machine, to target/bin/native/release/filestore
	@scripts/bootstrap build
	@scripts/build-binary

generate: ## write the files that are generated from the code
	@scripts/bootstrap build
	@scripts/generate

bench: ## requests per second of the gateway beside its peers, briefly
	@scripts/bootstrap test
	@scripts/bench $(ARGS)

bench-migrate: ## the migrator beside rclone, mc and s5cmd: docs/benchmarks.md (ARGS=--quick)
	@scripts/bootstrap test
	@scripts/bench-migrate $(ARGS)

bench-freeze: ## how long clients have no store in a cut-over, on a cluster: docs/benchmarks.md (ARGS='--rounds 1')
	@scripts/bootstrap $(if $(KUBECONFIG),test,cluster)
	@scripts/bench-freeze $(ARGS)

soak: ## kill the gateway and the copy again and again, read random drives back, compare a million keys (ROUNDS=20 times as often as the tests do)
	@scripts/bootstrap test
	@. scripts/env.sh && FILESTORE_TEST_KEYS=1000000 cargo test --locked -p filestore --test stores million
	@scripts/e2e test_kill.py test_fidelity.py --soak $(or $(ROUNDS),20) --timeout 0 $(ARGS)

soak-operator: ## 50 Filestores at rest for ten minutes on the cluster, and the operator killed after each of its writes (ARGS='--stores 10 --idle 60')
	@scripts/bootstrap $(if $(KUBECONFIG),test,cluster)
	@scripts/e2e-operator --soak $(ARGS)

dist: ## static binaries for amd64 and arm64, as shipped, to target/dist/
	@scripts/bootstrap test
	@scripts/dist

clean: ## remove what was built in this clone (the shared cache stays)
	@rm -rf target
