# Every target works on a fresh clone: it creates .venv with the versions pinned in constraints.txt.
# Variables:  PYTHON=python3.12     the interpreter for .venv (3.11 or newer)
#             EIGENRNN_DATA=folder  the folder of the data files (default: ../shared/data, if it exists)
#             PYTEST_FLAGS="-x"     additional flags for `make test`

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3.11 python3 python python3.12 python3.13 python3.14
PYTEST_FLAGS ?=
BENCH_FLAGS ?=
BIN := .venv/bin
BUILD_TOOLS := scikit-build-core nanobind cmake ninja
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Warnings are errors in a checkout only; a user's compiler may warn. An editable install compiles the
# kernels for this processor alone, add -DEIGENRNN_ISAS=all for all instruction sets.
export CMAKE_ARGS ?= -DEIGENRNN_WERROR=ON

ifndef EIGENRNN_DATA
ifneq ($(wildcard ../shared/data),)
export EIGENRNN_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: help demo test test-all newest console tutorials wheel wheels sanitize clang arm mac lint docs bench bench-constraints pins clean

help:  ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: .venv/.installed  ## Train scoRNN, an LSTM and a tanh RNN side by side (under 3 minutes on 2 cores)
	$(BIN)/python examples/copying_demo.py

# What `make test-all` leaves out, too: the markers of pyproject.toml that run on request.
NEITHER := not slow and not gpu and not reproduce and not console and not tutorials and not wheel

# Two workers of one thread each; both must collect the tests in the same order. They see no GPU: Triton's
# interpreter stands in for one, and `pytest -m gpu` has the tests of a real one.
# What Python compiles is kept, which some images forbid: else each process would compile the package again.
TWO_WORKERS := PYTHONDONTWRITEBYTECODE= CUDA_VISIBLE_DEVICES= PYTHONHASHSEED=0 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile $(PYTEST_FLAGS)

test: .venv/.installed-dev  ## Run the short tests (7 to 13 minutes of processor time, 4 to 8 on two cores)
	$(TWO_WORKERS)

test-all: .venv/.installed-dev  ## Run the long tests too: whole products, and what takes seconds
	$(TWO_WORKERS) -m "$(NEITHER)"

# pyproject.toml has no upper bound for the parser of the command line.
newest: .venv/.installed-dev  ## Test the command line with the newest release of its parser
	rm -rf build/newest
	$(pip_install) --upgrade --no-deps --target build/newest jsonargparse
	PYTHONPATH=build/newest OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile $(PYTEST_FLAGS) experiments/tests/cli experiments/tests/sweep/test_sweep_file.py

console: .venv/.installed-dev  ## Run the commands in the documentation at small sizes (4 minutes on 2 cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m console $(PYTEST_FLAGS) tests/repository/test_docs.py

tutorials: .venv/.installed-dev  ## Run the tutorials on real data and draw their pictures again (2 minutes on 2 cores)
	EIGENRNN_PICTURES=$(abspath docs/tutorials/pictures) $(BIN)/python -m pytest -m tutorials $(PYTEST_FLAGS) tests/repository/test_tutorials.py

wheel: .venv/.installed-dev  ## Build both wheels and install them into empty environments, with and without a compiler
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -m wheel $(PYTEST_FLAGS) tests/repository/test_wheel.py

# auditwheel names the oldest Linux on which the compiled wheel runs; without CMake the wheel is pure.
wheels: .venv/.installed-dev  ## Build a manylinux wheel, a pure one and that of the experiments into dist/, and test them
	rm -rf dist build/wheels
	$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheels .
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheels/*-linux_*.whl
	$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist --config-settings wheel.cmake=false .
	$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist ./experiments
	EIGENRNN_WHEELS="$(abspath dist)" $(BIN)/python -m pytest -m wheel $(PYTEST_FLAGS) tests/repository/test_wheel.py
	@ls -l dist

sanitize: .venv/.installed-dev  ## Test the compiled kernels under AddressSanitizer and UBSan
	$(call build_kernels,sanitized,-DEIGENRNN_SANITIZE=address$(comma)undefined)
	$(call test_kernels,sanitized,LD_PRELOAD="$(sanitizer_libraries)" ASAN_OPTIONS=$(ASAN_OPTIONS))

clang: .venv/.installed-dev  ## Compile the kernels with Clang, and test them (6 minutes of one core, less on two)
	$(call build_kernels,clang,-DCMAKE_CXX_COMPILER=clang++ -DEIGENRNN_ISAS=all)
	$(call test_kernels,clang,)

arm: .venv/.installed  ## Test the package on an emulated ARM64; everything is unpacked into build/arm
	.ci/arm build/arm

mac: .venv/.installed  ## Compile the kernels for a Mac, where nothing can run here; the compiler is unpacked into build/mac
	.ci/mac build/mac

lint: .venv/.installed-dev  ## Check style, types and the order of imports
	$(BIN)/ruff check --no-cache  # whether an import is ours depends on other files, which the cache does not follow
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: .venv/.installed-dev  ## Build the documentation, warnings are errors
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: .venv/.installed-dev  ## Time the recurrences against torch's own layers (10 minutes on 2 cores)
	$(BIN)/python -m benchmarks.sequences --all $(BENCH_FLAGS)

bench-constraints: .venv/.installed-dev  ## Time every constraint against torch, geotorch and a recurrence
	PYTHONPATH=tests $(BIN)/python -m benchmarks.constraints $(BENCH_FLAGS)

pins:  ## Update constraints.txt to the newest versions that pyproject.toml allows
	@$(find_python); rm -rf build/pins; "$$python" -m venv build/pins
	build/pins/bin/python -m pip install --quiet --upgrade pip $(BUILD_TOOLS)
	build/pins/bin/python -m pip install --quiet --no-build-isolation --editable ".[dev,docs]" --editable "./experiments[series,report,sweep,world]"
	{ grep '^#' constraints.txt; build/pins/bin/python -m pip freeze --all --exclude-editable \
	    | sed 's/+[a-z0-9]*$$//; /^triton==/d' | sort --ignore-case; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean:  ## Remove .venv, caches and build outputs
	rm -rf .venv build dist docs/_build .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- Other builds of the kernels: all short tests on the preferred instruction set, the odd sizes on the others ---

comma := ,
define build_kernels
PATH="$(abspath $(BIN)):$$PATH" cmake -S csrc -B build/$(1) -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DPython_EXECUTABLE="$(abspath $(BIN)/python)" $(2) $(CMAKE_ARGS)
PATH="$(abspath $(BIN)):$$PATH" cmake --build build/$(1)
endef

define test_kernels
kernels=$$(echo build/$(1)/_cpu.*.so); selected="$(SELECTED)"; \
isas=$$($(2) $(BIN)/python -c 'import sys; sys.path.insert(0, "build/$(1)"); import _cpu; print(*_cpu.isas)'); \
for isa in $$isas; do \
  echo "testing $$isa"; EIGENRNN_ISA=$$isa $(2) \
  $(BIN)/python -m pytest --numprocesses=2 --capture=sys --kernels=$$kernels -k "$$selected" \
  $(filter-out %_processes.py,$(wildcard tests/ops/test_*cpu*.py)) tests/ops/test_kernels.py tests/ops/test_recurrences.py tests/ops/test_norm_zoneout_op.py $(PYTEST_FLAGS) || exit 1; \
  selected="odd_sizes and $(SELECTED)"; \
done
endef

SELECTED := not instruction and not experiment and not 63x and not off_by
# The libraries must be loaded before Python. Memory that nothing has written is NaN, so that tests notice it.
sanitizer_libraries = $(foreach library,libasan.so libstdc++.so,$(shell $${CXX:-c++} -print-file-name=$(library)))
ASAN_OPTIONS := detect_leaks=0:max_malloc_fill_size=1000000000:malloc_fill_byte=255

# --- The environment: created once, and updated when the files that define it change ---

# Sets $python, or prints what is missing. A name on PATH may not run, so each candidate prints its version.
define find_python
python=; for candidate in $(PYTHON); do \
  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo "expected Python 3.11 or newer among: $(PYTHON); got: $$( (python3 --version 2>&1 || true) | head -n 1)." \
       "Name one with: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; \
fi
endef

# pip shows its progress on a terminal only.
pip_install = $(BIN)/python -m pip install $(shell [ -t 2 ] || echo --quiet)
install = $(pip_install) --constraint constraints.txt

.venv/.created:
	@$(find_python); echo "creating .venv with $$("$$python" --version)"; \
	"$$python" -m venv .venv || { echo "expected 'python3 -m venv' to work, see above (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@touch $@

.venv/.installed: .venv/.created pyproject.toml experiments/pyproject.toml constraints.txt csrc/CMakeLists.txt $(wildcard csrc/*.cpp csrc/*.hpp)
	@echo "installing eigenrnn and its dependencies into .venv, and compiling kernels (about a minute)"
	@$(install) --upgrade pip $(BUILD_TOOLS)
	@$(install) --no-build-isolation --editable . --editable ./experiments
	@touch $@

.venv/.installed-dev: .venv/.installed
	@echo "installing the tools for tests, checks and documentation into .venv"
	@$(install) --no-build-isolation --editable ".[dev,docs]" --editable "./experiments[series,report,sweep,world]"
	@touch $@
