# Roomlore's tasks. `make` lists them.
PYTHON ?= python3
BIN := .venv/bin
# What is installed is what was looked at: nothing whose hash is not known, and nothing that is built on the way. The
# files name everything that is needed, so pip resolves nothing.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps
LOCK := uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --constraint constraints.txt
# Each process has a PostgreSQL of its own. There is one more than there are cores, for tests also wait.
PROCESSES = $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
SIDE_BY_SIDE = --numprocesses $(PROCESSES) --dist worksteal

help: ## list the tasks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

.venv/installed: pyproject.toml requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Roomlore needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "no venv module: install your system's python3-venv package" >&2; exit 1; }
	$(PIP) --require-hashes --requirement requirements.txt
	$(PIP) --no-build-isolation --editable .
	@touch $@

.venv/installed-dev: .venv/installed requirements-dev.txt
	$(PIP) --require-hashes --requirement requirements-dev.txt
	@touch $@

lock: ## write the pins with their hashes anew, from pyproject.toml and constraints.txt; needs uv
	$(LOCK) --python-version 3.11 --group build pyproject.toml --output-file requirements.txt
	$(LOCK) --python-version 3.11.5 --all-extras --group build --group dev --group docs pyproject.toml --output-file requirements-dev.txt

setup: .venv/installed ## install into .venv

dev: .venv/installed-dev ## install into .venv with what development needs

demo: .venv/installed ## a small story of rooms, end to end
	@$(BIN)/roomlore --data .roomlore-demo demo

test: .venv/installed-dev ## the fast tests
	$(BIN)/pytest $(SIDE_BY_SIDE)

test-slow: .venv/installed-dev ## the slow tests
	$(BIN)/pytest $(SIDE_BY_SIDE) -m slow

faults: .venv/installed-dev ## show which seeded faults the fast tests notice; FAULTS="--area erasure" for some of them
	$(BIN)/python -m tests.faults --processes $(PROCESSES) $(FAULTS)

fix: .venv/installed-dev ## format, and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: .venv/installed-dev ## format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

layers: .venv/installed-dev ## imports go one way
	$(BIN)/lint-imports

openapi: .venv/installed-dev ## write the description of the HTTP API anew
	$(BIN)/python -m roomlore.http > docs/openapi.json

schema: ## draw the tables anew
	$(PYTHON) docs/schema.py > docs/schema.md

docs: .venv/installed-dev ## build the documentation
	$(BIN)/sphinx-build --quiet --fail-on-warning --nitpicky docs docs/_build

check: lint layers test docs ## all of the above

.PHONY: help setup dev lock demo test test-slow faults fix lint layers openapi schema docs check
