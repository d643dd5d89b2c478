# Every target sets up what it needs: a virtual environment in .venv with onegraph installed in place.
PYTHON ?= python3
PYTHONS ?= $(PYTHON)
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(wildcard include/*.h onegraph/csrc/*) build_ffi.py pyproject.toml

.PHONY: demo test test-newer lint bench stubs docs wheel test-wheel clean

demo: $(VENV)/.examples
	$(BIN)/python examples/autoencoder.py
	@echo
	$(BIN)/python examples/checking_attributes.py

test: lint
	$(BIN)/python -m pytest -n 2

# The suite on oneDNN 3.6 and 3.13, which pip brings: 3 GB the first time.
test-newer: $(VENV)/.dev
	$(BIN)/python tests/newer.py -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Against C, PyTorch, ONNX Runtime and OpenVINO; half an hour on an idle machine. benchmarks/README.md
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --json benchmarks/results.json

# What is computed from the op records: the methods for editors and type checkers, and the reference pages.
stubs: $(VENV)/.dev
	$(BIN)/python -m onegraph.stubs
	$(BIN)/python -m onegraph.pages

# The site of docs/, in build/docs; a warning is an error.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo build/docs/index.html

# One wheel for every Python from 3.10 on, and the source distribution, in dist. The library is that of its own wheel.
wheel: $(VENV)/.dev
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir build/wheel
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --exclude libdnnl.so.3 -w dist build/wheel/*.whl
	mv build/wheel/*.tar.gz dist

# Installs the wheel into clean environments without a compiler, of each of PYTHONS, and runs an example there.
test-wheel: wheel
	$(BIN)/python tests/clean_install.py $(PYTHONS)

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/.examples: $(VENV)/.created $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[examples]'
	touch $@

$(VENV)/.bench: $(VENV)/.created $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

$(VENV)/.dev: $(VENV)/.created $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.examples

clean:
	rm -rf $(VENV) build dist onegraph/*.so
