# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test docs faults fuzz dist lint bench bench-check clean

run: .venv/ready
	$(BIN)/python examples/demo.py runs/demo

# A process for each core, one thread each (tests/conftest.py).
test: .venv/ready lint
	$(BIN)/pytest -n auto --dist worksteal

# The site, from docs/, docstrings and the command line, into site/; a warning or a broken link fails.
# (The variable silences an advertisement for the theme's successor.)
docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/tools/check_links.py site

faults: .venv/ready
	$(BIN)/python tests/faults/scoreboard.py

# Mutated files for every reader; `--inputs N --seed S` for others.
fuzz: .venv/ready
	$(BIN)/python tests/fuzz/run.py --inputs 20000

# Wheel and sdist, each tried in a clean environment of the oldest and newest Python that is here.
dist: .venv/ready
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python tests/dist_check.py dist

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An epoch beside PyG's and beside the floor of bare sparse calls; `make bench-check` fails where it got slower.
bench: .venv/ready
	$(BIN)/python benchmarks/epoch.py

bench-check: .venv/ready
	$(BIN)/python benchmarks/epoch.py --check


.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv runs site .pytest_cache .mypy_cache .ruff_cache dist
	find . -name __pycache__ -prune -exec rm -rf {} +
