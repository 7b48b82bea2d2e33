# Two commands on a fresh machine with Python 3.11+ and a package index:
#   make demo    trains on the bundled corpus, privately, and writes a report
#   make test    lint, types and all tests
# make docs builds the documentation into site/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Threads that wait must sleep, not spin: on a busy machine spinning costs a hundredfold.
export OMP_WAIT_POLICY ?= passive
# Python keeps what it compiles; otherwise each process would compile PyTorch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test lint types unit docs mutants bench second-python faults format clean

demo: $(VENV)/.installed
	$(BIN)/privgcn demo

test: lint types unit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/size.py

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# One worker more than two cores: many tests wait for processes of their own.
unit: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal -q

# Needs no network once the packages are there, and fails on a link that leads nowhere.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# Ten minutes on two quiet cores; PRIVGCN_DATA names the folder of raw data.
bench: $(VENV)/.installed-dev
	mkdir -p bench
	$(BIN)/python benchmarks/steps.py --json bench/steps.json
	$(BIN)/python benchmarks/end_to_end.py 1000 10000 100000 --rounds 1 --json bench/end_to_end.json

# Another Python of 3.11 to 3.13 that is on this machine.
second-python:
	.ci/second-python

# Changes one operator or constant of the private core after the other, and runs the tests that
# are marked as quick. Half an hour; what survives is a question for the slower tests.
mutants: $(VENV)/.installed-dev
	$(BIN)/python -m pip install -qq 'mutmut>=3,<4'
	OMP_NUM_THREADS=1 $(BIN)/python -m mutmut run
	$(BIN)/python -m mutmut results

# Kills commands at random moments and looks at what they left.
faults: $(VENV)/.installed-dev
	$(BIN)/python scripts/faults.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# With an older pip the rest takes half a minute longer.
$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit("privgcn needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip
	touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install -qq --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install -qq --editable '.[dev,text,cluster]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(VENV)/.created pyproject.toml
	$(BIN)/python -m pip install -qq --editable '.[docs]'
	touch $@

# All of them at once. Python compiles what is imported; compiling all of it takes a minute.
install: $(VENV)/.created
	$(BIN)/python -m pip install -qq --no-compile --editable '.[dev,text,cluster,docs]'
	touch $(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-docs

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info
