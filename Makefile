# Every target sets up what it needs: a virtual environment in .venv with onegraph installed in place.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(wildcard include/*.h onegraph/csrc/*) build_ffi.py pyproject.toml

.PHONY: demo test lint bench stubs wheel clean

demo: $(VENV)/.examples
	$(BIN)/python examples/autoencoder.py
	@echo
	$(BIN)/python examples/checking_attributes.py

test: lint
	$(BIN)/python -m pytest -n 2

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

wheel: $(VENV)/.dev
	$(BIN)/python -m build

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
