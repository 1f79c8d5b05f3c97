# Every command works on a fresh clone with nothing but python3 (3.11 or newer) and make.
# PYTHON=python3.13 make setup   picks the interpreter;   DATABASE_URL, PORT: see docs/install.md

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
SITE_STAMP := $(VENV)/.site-stamp
PYTEST_WORKERS ?= auto

export PYTHONUNBUFFERED = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Every worker and process of a test imports all modules: compiling them takes six seconds, reading what was compiled less
# than one. So that is kept also where a machine forbids it (empty is the same as not set).
test test-newest test-fast: export PYTHONDONTWRITEBYTECODE =

.PHONY: setup run kafka test test-newest test-fast screenshots check bench constraints clean

# Two stamps fill one environment.
.NOTPARALLEL:

setup: $(STAMP)

# A stamp is newer than what it depends on only after a complete installation, so an
# interrupted one is repeated and a finished one costs nothing.
$(STAMP): pyproject.toml constraints.txt hatch_build.py
	$(make_environment)
	@echo "Installing into $(VENV) (about half a minute, once) …"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable .
	@touch $(SITE_STAMP) $@

# What the site needs and no more: no type checkers, no browsers. `setup` has all of it too.
$(SITE_STAMP): pyproject.toml constraints.txt hatch_build.py
	$(make_environment)
	@echo "Installing what the site needs into $(VENV) (some seconds, once) …"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group site --editable .
	@touch $@

define make_environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Holdpoint needs Python 3.11 or newer; '$(PYTHON)' says: $$($(PYTHON) -V 2>&1)" >&2; \
	  echo "Name another interpreter:  make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "This Python cannot make virtual environments. On Debian or Ubuntu:" >&2; \
	  echo "  apt install python3-venv    (then run make again)" >&2; exit 1; }
	@if [ -x $(BIN)/python ] && ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then rm -rf $(VENV); fi
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt pip
endef

run: $(SITE_STAMP)
	@exec $(BIN)/python -m config.run

# An Apache Kafka for development (needs Java 17 and Maven, and says so). KAFKA_PORT=9093 make kafka changes its port.
kafka: $(SITE_STAMP)
	@exec $(BIN)/python -m config.kafka run

# One worker for each processor, and two for tests that wait (tests/support/lanes.py).
test: setup
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS)

# The other end of the matrix: the newest Django on the newest Python here, the tests that start no processes, each with
# its first and its last case (docs/why.md).
# It lives in an environment of its own; NEWEST_PYTHON=python3.14 picks the interpreter.
NEWEST_DJANGO ?= 6.1.3
NEWEST_VENV := .venv-newest
NEWEST_STAMP := $(NEWEST_VENV)/.stamp

$(NEWEST_STAMP): pyproject.toml constraints.txt hatch_build.py config/newest_python.sh
	@python=$$(sh config/newest_python.sh) || exit 1; rm -rf $(NEWEST_VENV) && "$$python" -m venv $(NEWEST_VENV)
	@echo "Installing Django $(NEWEST_DJANGO) into $(NEWEST_VENV) with $$($(NEWEST_VENV)/bin/python -V) …"
	@sed '/^[Dd]jango==/d' constraints.txt > $(NEWEST_VENV)/constraints.txt && echo "Django==$(NEWEST_DJANGO)" >> $(NEWEST_VENV)/constraints.txt
	@$(NEWEST_VENV)/bin/python -m pip install --quiet --constraint $(NEWEST_VENV)/constraints.txt pip
	@$(NEWEST_VENV)/bin/python -m pip install --quiet --constraint $(NEWEST_VENV)/constraints.txt --group dev --editable .
	@touch $@

test-newest: $(NEWEST_STAMP)
	@$(NEWEST_VENV)/bin/python -m pytest -n $(PYTEST_WORKERS) --ends -m "not browser and not process and not kill"

# A check of every package in about a minute and a half on two cores. It leaves out browsers, processes and kills, brokers,
# what is marked or was measured slow (tests/support/slow_tests.txt), all cases of a test but its first, and of a file what
# is more than six tests spread over it (tests/support/fast_tests.py).
test-fast: setup
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --fast --durations 10

# The pictures of docs/images, made anew. SCREENSHOTS=1 before a run of browser tests leaves all theirs in var/screenshots.
screenshots: setup
	@SCREENSHOTS=1 $(BIN)/python -m pytest -n $(PYTEST_WORKERS) -m screenshots tests/browser

check: setup
	@$(BIN)/python -m config.check

bench: setup
	@$(BIN)/python -m benchmarks

# A new set of versions: install without pins into a throw-away environment and freeze it.
constraints:
	@rm -rf var/constraints && $(PYTHON) -m venv var/constraints
	@var/constraints/bin/python -m pip install --quiet --upgrade pip
	@var/constraints/bin/python -m pip install --quiet --group dev --editable .
	@head -2 constraints.txt > var/constraints.txt
	@var/constraints/bin/python -m pip freeze --all --exclude-editable --exclude setuptools >> var/constraints.txt
	@mv var/constraints.txt constraints.txt && rm -rf var/constraints

clean:
	@rm -rf $(VENV) $(NEWEST_VENV) var
