# Two commands: `make run` and `make test`. Both build .venv from nothing.
PYTHON ?= python3
BIN := .venv/bin
RECIPE ?= recipes/quickstart.yaml

.PHONY: run test install lint lock clean

run: install  ## install, then make a dataset with the embedded model
	$(BIN)/toolloom run $(RECIPE)

test: install lint  ## install, then format, lint, types and tests
	$(BIN)/pytest -n auto --dist loadfile

install: .venv/.installed

.venv/.requirements: requirements.lock
	$(PYTHON) -c 'import sys; sys.exit("toolloom needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	touch $@

# Strict editable mode links every file of the package into build/: a new file needs a new tree.
.venv/.installed: .venv/.requirements pyproject.toml $(wildcard *.py */*.py */*/*.py */*.j2 */*/*.yaml)
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --config-settings editable_mode=strict -e .
	touch $@

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock:  ## pin again after a change in pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --universal --python-version 3.11 --all-extras --override requirements.overrides \
	  pyproject.toml -o requirements.lock

clean:
	rm -rf .venv build *.egg-info
