# Every target sets up what it needs: a virtual environment in .venv with onegraph installed in place.
PYTHON ?= python3
PYTHONS ?= $(PYTHON)
VENV := .venv
BIN := $(VENV)/bin
STUB := onegraph/builder/op_methods.pyi
SOURCES := $(wildcard include/*.h onegraph/native/csrc/*) build_ffi.py pyproject.toml

.PHONY: demo test test-newer stress asan tsan lint bench fuzz docs wheel test-wheel clean

demo: $(VENV)/.examples
	$(BIN)/python examples/autoencoder.py
	@echo
	$(BIN)/python examples/checking_attributes.py

test: lint
	$(BIN)/python -m pytest -n 2

# The suite on oneDNN 3.6 and 3.13, which pip brings: 3 GB the first time.
test-newer: $(VENV)/.dev
	$(BIN)/python tests/newer.py -n 2

# Threads, forks and signals for longer; 100,000 executions and 10,000 compilations in memory that does not grow.
stress: $(VENV)/.dev
	ONEGRAPH_STRESS=1 $(BIN)/python -m pytest -n 2 tests/test_stress.py

# The C of the package, the glue of cffi included, under gcc's sanitizers; the oneDNN library itself is as it is.
# libstdc++ is preloaded because the sanitizer must find it before the first exception. `make asan TESTS=tests/test_x.py`
TESTS ?= tests
SANITIZED = PYTHONPATH=$(CURDIR)/tests/sanitized PYTHONMALLOC=malloc ONEGRAPH_EXTENSION=$(CURDIR)/build/$@
LIBRARIES = $(foreach name,$(1) stdc++,$(shell $(CXX) -print-file-name=lib$(name).so))

asan: $(VENV)/.dev
	mkdir -p build/$@ && ONEGRAPH_SANITIZE=address,undefined $(BIN)/python build_ffi.py build/$@
	$(SANITIZED) LD_PRELOAD="$(call LIBRARIES,asan ubsan)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		UBSAN_OPTIONS=print_stacktrace=1 $(BIN)/python -m pytest -n 2 $(TESTS)

# Only what needs no OpenMP threads says something: docs/safety.md.
tsan: $(VENV)/.dev
	mkdir -p build/$@ && ONEGRAPH_SANITIZE=thread $(BIN)/python build_ffi.py build/$@
	$(SANITIZED) LD_PRELOAD="$(call LIBRARIES,tsan)" OMP_NUM_THREADS=1 \
		TSAN_OPTIONS="ignore_noninstrumented_modules=1 report_signal_unsafe=0" \
		$(BIN)/python -m pytest tests/test_stress.py -k "eight_threads or one_to_one or collected or resized"

# Random graphs and ops, and coverage-guided files: a seed and a short script for each finding. Memory that nobody has
# written yet is not 0, so that what depends on it shows.
MINUTES ?= 10
fuzz: $(VENV)/.fuzz
	MALLOC_PERTURB_=165 $(BIN)/python -m tests.fuzz --minutes $(MINUTES)

lint: $(VENV)/.dev $(STUB)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Against C, PyTorch, ONNX Runtime and OpenVINO; half an hour on an idle machine. benchmarks/README.md
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --json benchmarks/results.json

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

$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,fuzz]'
	touch $@

$(VENV)/.dev: $(VENV)/.created $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.examples

# The methods for editors and type checkers, computed from the op records.
$(STUB): $(VENV)/.dev $(wildcard onegraph/opset/*.py onegraph/opset/*/*.py onegraph/builder/*.py)
	$(BIN)/python -m onegraph.builder.stubs

clean:
	rm -rf $(VENV) build dist docs/ops onegraph/*.so $(STUB)
