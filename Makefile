# netmesh: every target sets up what it needs by itself (scripts/bootstrap), so that
# each works in a fresh clone; a second run takes seconds.
#
#   make demo             show what netmesh does, ending with agents and a live upstream peer
#   make test             all tests
#   make check-fast       the fast lane: linters, C tests, Python tests without slow ones
#   make help             all targets

VENV ?= .venv
PYTHON_ENV = $(VENV)/bin/python
PYTEST = $(VENV)/bin/pytest
SECONDS ?= 60
# 0: new inputs each time.
SEED ?= 0
JOBS ?= auto
SEEDS ?= 200
C_FILES = $(shell find csrc benchmarks/native tests/c tests/c_io tests/fuzz \
            -name '*.[ch]' -not -path '*/build/*' 2>/dev/null)
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
C_TESTS = $(MAKE) -C tests/c -j$(CORES) PYTHON=$(abspath $(PYTHON_ENV))
IO_TESTS = $(MAKE) -C tests/c_io -j$(CORES)
BOOTSTRAP = NETMESH_VENV=$(VENV) scripts/bootstrap

.PHONY: help setup demo test test-c test-python check-fast lint types format sanitize \
        fuzz sim bench rust-peers test-all-pythons wheel sdist readme clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' Makefile

setup: ## install what is missing and build the extension in place
	@$(BOOTSTRAP) dev

demo: ## show what netmesh does, ending with agents and a live upstream peer
	@$(BOOTSTRAP) peers
	@$(PYTHON_ENV) -m netmesh demo

test: ## all tests: C, Python, interop with the live upstream stack, documents
	@$(BOOTSTRAP) test
	$(C_TESTS) test
	$(IO_TESTS) test
	$(PYTEST) -n $(JOBS) --dist worksteal

test-c: ## the C tests: the core, and nodes on real sockets
	@$(BOOTSTRAP) no-build
	$(C_TESTS) test
	$(IO_TESTS) test

test-python: ## the Python tests without slow ones and without live peers
	@$(BOOTSTRAP) test
	$(PYTEST) -n $(JOBS) -m "not slow and not interop"

check-fast: lint test-c test-python ## the fast lane, for every commit

lint: types ## formatting, ruff, the C rules and the types
	@$(BOOTSTRAP) dev tools
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	@echo clang-format --dry-run -Werror; clang-format --dry-run -Werror $(C_FILES)
	$(PYTEST) -q tests/lint

types: ## mypy --strict, and the stubs against the extension
	@$(BOOTSTRAP) dev
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m mypy.stubtest netmesh._core --allowlist tests/typing/stubtest-allow.txt

format: ## format all sources
	@$(BOOTSTRAP) dev tools no-build
	$(VENV)/bin/ruff check --fix-only --quiet .
	$(VENV)/bin/ruff format .
	@echo clang-format -i; clang-format -i $(C_FILES)

sanitize: ## the C tests and the extension under the address, undefined-behaviour and thread sanitizers
	@$(BOOTSTRAP) test
	$(C_TESTS) sanitize
	$(IO_TESTS) sanitize
	$(IO_TESTS) race
	NETMESH_VENV=$(VENV) scripts/sanitize-extension address
	NETMESH_VENV=$(VENV) scripts/sanitize-extension thread

fuzz: ## every fuzz target for SECONDS=60
	@$(BOOTSTRAP) tools no-build
	$(MAKE) -C tests/fuzz -j$(CORES) run SECONDS=$(SECONDS) SEED=$(SEED)

sim: ## every scenario of the simulator under SEEDS=200 seeds
	@$(BOOTSTRAP) test
	NETMESH_SIM_SEEDS=$(SEEDS) $(PYTEST) -n $(JOBS) --dist worksteal tests/sim

bench: ## the full comparison report, written to docs/reports
	@$(BOOTSTRAP) peers
	$(PYTHON_ENV) -m netmesh bench --json docs/reports/latest.json \
	  --markdown docs/reports/latest.md
	$(PYTHON_ENV) scripts/readme_table.py

rust-peers: ## build the Rust stacks that the report measures
	benchmarks/rust/build.sh

test-all-pythons: ## unit, engine, simulator and node tests under every Python 3.11+ found
	@$(BOOTSTRAP) no-build
	scripts/test-all-pythons

wheel: ## a wheel with its libraries inside, tested without development packages
	@$(BOOTSTRAP) dev no-build
	NETMESH_VENV=$(VENV) scripts/wheel

sdist: ## the source distribution
	@$(BOOTSTRAP) dev no-build
	$(PYTHON_ENV) -m build --sdist --no-isolation

clean: ## remove what was built (not the virtual environments)
	rm -rf build dist wheelhouse netmesh/*.so *.egg-info
	[ ! -f tests/c/Makefile ] || $(MAKE) -C tests/c clean
	[ ! -f tests/c_io/Makefile ] || $(MAKE) -C tests/c_io clean
