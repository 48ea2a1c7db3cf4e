# make demo     train, evaluate and predict with SQL on this machine (sets up what it needs)
# make test     the whole test suite against real servers             (sets up what it needs)
# make lint     ruff, mypy, import-linter
# make bench    every benchmark; each prints its ratios and fails when it misses its bound
# make lock     resolve the dependencies anew into requirements.lock
# make clean    remove the virtual environment and what the others left

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
SERVERS := mariadb-server mariadb-client postgresql etcd-server iproute2
READY := $(VENV)/.ready
PYTEST_WORKERS ?= 2

# Installs those of the given Debian packages that are missing; their services are not started.
define install_packages
@missing=""; for package in $(1); do dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
if [ -n "$$missing" ]; then \
	echo "installing$$missing"; \
	$(SUDO) apt-get update -qq && \
	$(SUDO) env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends $$missing >/dev/null; \
fi
endef

.PHONY: setup servers demo test lint bench lock clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "Python 3.11, 3.12 or 3.13 is needed; say which with: make PYTHON=python3.11 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(SUDO) apt-get update -qq && \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends python3-venv >/dev/null; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

servers:
	$(call install_packages,$(SERVERS))

demo: $(READY)
	$(BIN)/python docs/demo/demo.py

test: $(READY) servers
	$(BIN)/python -m tests.services run -- $(BIN)/python -m pytest -n $(PYTEST_WORKERS) $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) servers
	$(BIN)/python -m tests.services run -- $(BIN)/python -m benchmarks

lock:
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-emit-index-url --no-annotate \
		--no-header --upgrade --quiet -o requirements.lock

clean:
	rm -rf $(VENV) build var *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
