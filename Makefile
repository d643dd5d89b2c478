# Every target first sets up its requirements: a virtual environment in .venv with an editable install of onegraph.
PYTHON ?= python3
PYTHONS ?= $(PYTHON)
VENV := .venv
BIN := $(VENV)/bin
CLUSTER := .venv-cluster
STUB := onegraph/builder/op_methods.pyi
SOURCES := $(wildcard include/*.h onegraph/native/csrc/* onegraph/native/csrc/kernels/* onegraph/native/csrc/kernels/*/*) build_ffi.py pyproject.toml

# The objects of the C++ sources, for later builds.
export ONEGRAPH_OBJECTS ?= $(CURDIR)/build/objects

.PHONY: demo test test-long coverage coverage-native conditions guard kernels test-pure test-newer test-onnx test-torch test-torch-versions test-cluster test-reproducible stress mutants asan asan-changed tsan \
	lint bench fuzz docs site wheel test-wheel release clean

demo: $(VENV)/.examples
	@$(BIN)/python examples/checking_attributes.py
	@echo
	@$(BIN)/python examples/autoencoder.py

# Two processes take file after file, so that the fixtures of a file are made once. No test asks pytest what was logged,
# which takes a fifth of what pytest itself takes for a test.
SPREAD = -n 2 --dist loadfile --no-loadscope-reorder -p tests.spread -p no:logging
PYTEST = $(BIN)/python -m pytest $(SPREAD)

# The plugin measures which branches of the package the tests run, prints the shares by room and compares them with
# tests/branches.json. The tests fail if one has fallen. To keep new shares: make test BRANCHES=--keep-branches
MEASURED = $(PYTEST) -p tests.branches.plugin $(BRANCHES)

# The type checker runs beside the tests.
test: $(VENV)/.dev $(STUB)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy & $(MEASURED); failed=$$?; wait $$! && exit $$failed

# Runs the tests with more random programs, pairs of editions and wrong calls than make test has time for.
test-long: $(VENV)/.dev
	ONEGRAPH_LONG=1 $(PYTEST)

# Measures the branches with PyTorch too, whose shares are others.
coverage: $(VENV)/.dev $(VENV)/.bench
	$(MEASURED)

# The same of the C++ code, by file, with gcov. To keep new shares: make coverage-native COVERAGE=--write
coverage-native: $(VENV)/.dev $(VENV)/.bench
	rm -rf build/$@ && mkdir -p build/$@ && ONEGRAPH_GCOV=$(CURDIR)/build/$@/objects $(BIN)/python build_ffi.py build/$@
	$(BIN)/python -m tests.branches build/$@ $(COVERAGE)

# Asks which conditions of the package the tests decide, by each operand and at each bound; prints the shares by room and
# writes what is not answered to build/conditions/missed.txt. Tests that look at frames may fail under it.
conditions: $(VENV)/.dev
	$(BIN)/python -m tests.conditions $(SPREAD)

# Runs the tests on oneDNN 3.6 and 3.13. The first run downloads 3 GB with pip.
test-newer: $(VENV)/.dev
	$(BIN)/python -m tests.newer $(SPREAD)

# Runs all backend tests of the package onnx, and compares the failures with the table in tests/onnx_backend/known.py.
test-onnx: $(VENV)/.dev
	$(BIN)/python -m tests.onnx_backend

# Compiles models of torchvision, timm and transformers with the backend of torch.compile, in f32 and bf16, and compares
# PyTorch's samples of ops; two hours. Writes docs/howto/torch-models.md.
TORCH_DTYPES = float32 bfloat16
test-torch: $(VENV)/.bench
	$(BIN)/python -m pip install --quiet torch==2.13.0 torchvision timm transformers expecttest
	failed=0; for dtype in $(TORCH_DTYPES); do \
		for family in classification segmentation detection timm transformers new; do $(BIN)/python \
			-m tests.torch_backend.run_models $$family --dtype $$dtype --json build/torch_models.json || failed=1; done; \
		$(BIN)/python -m tests.torch_backend.run_ops --dtype $$dtype || failed=1; done; \
	$(BIN)/python -m tests.fuzz torch functions --count 5000 --minutes 100000 || failed=1; \
	$(BIN)/python -m tests.torch_backend.changing_weights --threads 2 || failed=1; \
	$(BIN)/python -m tests.torch_backend.table build/torch_models.json; exit $$failed

# Runs the tests of the backend of torch.compile on the oldest and the newest supported PyTorch. The first run downloads
# 5 GB with pip.
test-torch-versions: $(VENV)/.created
	$(BIN)/python -m tests.torch_backend.versions

# Runs Ray, Dask and gloo on this machine, with workers that are killed; 10 minutes, and 6 GB of packages. The environment
# is one of its own, because the engines bring many packages.
test-cluster: $(CLUSTER)/.ready
	ONEGRAPH_CLUSTER=1 $(CLUSTER)/bin/python -m pytest -p no:xdist -W default tests/house/test_cluster.py tests/house/test_examples.py

# Builds the pure wheel of systems without oneDNN, and runs the tests on it and on the wheel for Linux, both without the
# library.
test-pure: $(VENV)/.dev
	$(BIN)/python tests/without_library.py $(SPREAD)

# Compares hashes over threads, batches and processes, with the CPU's instructions and with AVX2 alone; an hour.
test-reproducible: $(VENV)/.dev
	$(BIN)/python -m tests.reproducible_models
	ONEDNN_MAX_CPU_ISA=AVX2 $(BIN)/python -m tests.reproducible_models

# Tests threads, forks, signals, writers of files and kept programs for a long time, a service beside writers that are
# killed for an hour, and memory over 100,000 executions and 10,000 compilations, also of models of ONNX and of PyTorch.
# The pace beside a busy process needs an idle machine.
stress: $(VENV)/.dev $(VENV)/.bench
	ONEGRAPH_STRESS=1 ONEGRAPH_STRESS_SECONDS=60 ONEGRAPH_STATE_SEQUENCES=500 ONEGRAPH_SERVICE_SECONDS=3600 $(PYTEST) \
		tests/house/test_stress.py tests/runtime/test_whole_files.py tests/runtime/test_kept_state.py \
		tests/runtime/test_running_service.py
	ONEGRAPH_STRESS=1 $(BIN)/python -m pytest -p no:xdist tests/machines/test_threads.py -k takes_twice_its_time

# Changes the package in one place at a time and asks whether the tests notice; prints the share by room. The last make
# test has noted which tests run each place. A part is chosen by MUTANTS="--count 100 --seed 1" or "--shard 1/8".
# STAGES="serialize runtime" takes rooms, STAGES=changed the lines that have changed since the branch left the main branch,
# and STAGES=native MUTANTS="--count 30" compiles changes of the C++ code, half a minute for each, and runs the tests of
# their kernels.
STAGES = package
mutants: $(VENV)/.dev
	failed=0; for stage in $(STAGES); do $(BIN)/python -m tests.mutants $$stage $(MUTANTS) || failed=1; done; exit $$failed

# Runs the tests with the C++ code of the package, including cffi's glue, under gcc's sanitizers. The oneDNN library is
# not instrumented. libstdc++ is preloaded because the sanitizer must find it before the first exception.
# To select tests: make asan TESTS=tests/kernels
TESTS ?= tests
SANITIZED = PYTHONPATH=$(CURDIR)/tests/sanitized PYTHONMALLOC=malloc ONEGRAPH_EXTENSION=$(CURDIR)/build/$@
LIBRARIES = $(foreach name,$(1) stdc++,$(shell $(CXX) -print-file-name=lib$(name).so))

asan: $(VENV)/.dev
	mkdir -p build/$@ && ONEGRAPH_SANITIZE=address,undefined $(BIN)/python build_ffi.py build/$@
	$(SANITIZED) LD_PRELOAD="$(call LIBRARIES,asan ubsan)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		UBSAN_OPTIONS=print_stacktrace=1 $(PYTEST) $(TESTS)

# A shard of make asan: the sources that have changed are compiled with the sanitizers, and the tests of their kernels run.
asan-changed: $(VENV)/.dev
	sources="$$($(BIN)/python -m tests.changed sources)"; if [ -z "$$sources" ]; then echo "no C++ source has changed"; else \
		ONEGRAPH_SANITIZE_SOURCES="$$sources" $(MAKE) asan TESTS="$$($(BIN)/python -m tests.changed tests)"; fi

# Runs only tests that need no OpenMP threads: docs/safety.md gives the reason.
tsan: $(VENV)/.dev
	mkdir -p build/$@ && ONEGRAPH_SANITIZE=thread $(BIN)/python build_ffi.py build/$@
	$(SANITIZED) LD_PRELOAD="$(call LIBRARIES,tsan)" OMP_NUM_THREADS=1 \
		TSAN_OPTIONS="ignore_noninstrumented_modules=1 report_signal_unsafe=0" \
		$(BIN)/python -m pytest tests/house/test_stress.py -k "eight_threads or one_to_one or collected or resized"

# Changes the inputs of every fuzzer, of tests/fuzz/kinds.py or of KINDS="graphs torch". Each finding gets a file and a
# short script. MALLOC_PERTURB_ fills new memory with other bytes than 0, to reveal reads of uninitialized memory.
MINUTES ?= 10
fuzz: $(VENV)/.fuzz
	MALLOC_PERTURB_=165 $(BIN)/python -m tests.fuzz $(KINDS) --minutes $(MINUTES)

# Runs every op on memory between pages that nobody may touch, on every library that benchmarks/newer_libraries.py has.
CASES ?= 5000
guard: $(VENV)/.dev
	$(BIN)/python -m tests.guard --cases $(CASES)

# Draws uses of each kernel of the package, on memory between pages that nobody may touch, and compares them with float64:
# a night on two processors. Prints what ran, and findings with the seeds that show them again.
# To choose: make kernels KERNELS="softmax attention" CASES=1000 SEED=5000 SHARD=1/4
KERNELS ?= all
SEED ?= 0
SHARD ?= 1/1
kernels: CASES = 100000
kernels: $(VENV)/.dev
	$(BIN)/python -m tests.drawn $(KERNELS) --cases $(CASES) --seed $(SEED) --shard $(SHARD)

lint: $(VENV)/.dev $(STUB)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Compares with C, PyTorch, ONNX Runtime and OpenVINO; an hour on an idle machine. Writes the results to the documentation
# and to README.md. See benchmarks/README.md.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --json benchmarks/results.json
	$(BIN)/python -m benchmarks.page

# Builds the site of docs/ in build/docs. A warning is an error.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo build/docs/index.html

# Builds a few pages of each kind, reads all others, and checks what the site shows.
site: $(VENV)/.dev
	ONEGRAPH_SITE=1 $(BIN)/python -m pytest -q tests/house/test_site.py

# Builds one wheel for every Python from 3.10 on, and the source distribution, in dist. oneDNN stays in its own wheel.
# The build fails if the extension needs a newer system than the tag says.
PLATFORM := manylinux_2_27_x86_64
wheel: $(VENV)/.dev
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir build/wheel
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --plat $(PLATFORM) --exclude libdnnl.so.3 -w dist build/wheel/*.whl
	mv build/wheel/*.tar.gz dist

# For each Python of PYTHONS, installs the wheel into a clean environment without a compiler and runs an example.
test-wheel: wheel
	$(BIN)/python tests/clean_install.py $(PYTHONS)

# Releases the version of onegraph/_version.py: compares the texts with it, runs the tests, builds the site, tries the wheel,
# and makes the tag. Nothing is uploaded. CONTRIBUTING.md has what to write before.
release: $(VENV)/.dev
	$(BIN)/python -m tests.release
	$(MAKE) test docs test-wheel
	$(BIN)/python -m tests.release --tag

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

$(CLUSTER)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --editable '.[cluster,examples]' pytest pytest-timeout
	touch $@

$(VENV)/.dev: $(VENV)/.created $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.examples

# The op methods for editors and type checkers, generated from the op records.
$(STUB): $(VENV)/.dev $(wildcard onegraph/opset/*.py onegraph/opset/*/*.py onegraph/builder/*.py)
	$(BIN)/python -m onegraph.builder.stubs

clean:
	rm -rf $(VENV) $(CLUSTER) build dist docs/gallery docs/ops onegraph/*.so $(STUB)
