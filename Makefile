# Every target works on a fresh clone: it prepares .venv by itself, with the versions pinned in constraints.txt.
# Variables:  PYTHON=python3.12     which interpreter makes .venv (3.11 or newer)
#             EIGENRNN_DATA=folder  where the data files are (default: ../shared/data, if it exists)
#             PYTEST_FLAGS="-x"     more flags for `make test`

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
# For those who build a checkout; a user's compiler may warn of what it likes.
export CMAKE_ARGS ?= -DEIGENRNN_WERROR=ON

ifndef EIGENRNN_DATA
ifneq ($(wildcard ../shared/data),)
export EIGENRNN_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: help demo test console wheel sanitize lint docs bench bench-constraints pins clean

help:  ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: .venv/.installed  ## Train scoRNN, an LSTM and a tanh RNN side by side (under 3 minutes on 2 cores)
	$(BIN)/python examples/copying_demo.py

# Two workers of one thread each; both must collect the tests in the same order.
test: .venv/.installed-dev  ## Run the whole fast test suite (10 minutes on 2 cores)
	PYTHONHASHSEED=0 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=2 $(PYTEST_FLAGS)

console: .venv/.installed-dev  ## Run the commands that the pages show, at small sizes (4 minutes on 2 cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m console $(PYTEST_FLAGS) tests/test_docs.py

wheel: .venv/.installed-dev  ## Build the wheel and install it into empty environments, with and without a compiler
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -m wheel $(PYTEST_FLAGS) tests/test_wheel.py

sanitize: .venv/.installed-dev  ## Test the compiled kernels with AddressSanitizer and UBSan watching
	PATH="$(abspath $(BIN)):$$PATH" cmake -S csrc -B build/sanitized -G Ninja -DCMAKE_BUILD_TYPE=Release \
	    -DPython_EXECUTABLE="$(abspath $(BIN)/python)" -DEIGENRNN_SANITIZE=address,undefined $(CMAKE_ARGS)
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/sanitized
	kernels=$$(echo build/sanitized/_cpu.*.so); chosen="$(WATCHED)"; \
	isas=$$($(BIN)/python -c 'from eigenrnn.ops import compiled; print(*compiled.kernels.isas)'); \
	for isa in $$isas; do \
	  echo "watching $$isa"; EIGENRNN_ISA=$$isa LD_PRELOAD="$(watchers)" ASAN_OPTIONS=$(ASAN_OPTIONS) \
	  $(BIN)/python -m pytest --numprocesses=2 --capture=sys --kernels=$$kernels -k "$$chosen" \
	  $(filter-out %_processes.py,$(wildcard tests/test_*cpu*.py)) $(PYTEST_FLAGS) || exit 1; \
	  chosen="odd_sizes and $(WATCHED)"; \
	done

lint: .venv/.installed-dev  ## Check style, types and the order of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: .venv/.installed-dev  ## Build the documentation, warnings are errors
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: .venv/.installed-dev  ## Time the recurrences against torch's own layers (10 minutes on 2 cores)
	$(BIN)/eigenrnn bench --all $(BENCH_FLAGS)

bench-constraints: .venv/.installed-dev  ## Time every constraint against torch's, geotorch's and a recurrence
	$(BIN)/python -m benchmarks.constraints $(BENCH_FLAGS)

pins:  ## Renew constraints.txt with the newest versions that pyproject.toml allows
	@$(find_python); rm -rf build/pins; "$$python" -m venv build/pins
	build/pins/bin/python -m pip install --quiet --upgrade pip $(BUILD_TOOLS)
	build/pins/bin/python -m pip install --quiet --no-build-isolation --editable ".[dev,docs]"
	{ grep '^#' constraints.txt; build/pins/bin/python -m pip freeze --all --exclude-editable \
	    | sed 's/+[a-z0-9]*$$//; /^triton==/d' | sort --ignore-case; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean:  ## Remove .venv, caches and everything that was built
	rm -rf .venv build dist docs/_build .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- Sanitizers: all that takes seconds on the preferred instruction set, the odd sizes on the others ---

WATCHED := not instruction and not experiment and not 63x and not off_by
# They must be there before Python is; and what no one has written is NaN, which no test takes for a result.
watchers = $(foreach library,libasan.so libstdc++.so,$(shell $${CXX:-c++} -print-file-name=$(library)))
ASAN_OPTIONS := detect_leaks=0:max_malloc_fill_size=1000000000:malloc_fill_byte=255

# --- The environment: made once, and brought up to date when what it is made from changes ---

# Sets $python, or says what is missing. A name on PATH need not run: each candidate is asked for its version.
define find_python
python=; for candidate in $(PYTHON); do \
  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo "expected Python 3.11 or newer among: $(PYTHON); got: $$( (python3 --version 2>&1 || true) | head -n 1)." \
       "Name one with: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; \
fi
endef

# pip shows its progress on a terminal, and is quiet in a log.
install = $(BIN)/python -m pip install $(shell [ -t 2 ] || echo --quiet) --constraint constraints.txt

.venv/.created:
	@$(find_python); echo "making .venv with $$("$$python" --version)"; \
	"$$python" -m venv .venv || { echo "expected 'python3 -m venv' to work, see above (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@touch $@

.venv/.installed: .venv/.created pyproject.toml constraints.txt csrc/CMakeLists.txt $(wildcard csrc/*.cpp csrc/*.hpp)
	@echo "installing eigenrnn and what it needs into .venv"
	@$(install) --upgrade pip $(BUILD_TOOLS)
	@$(install) --no-build-isolation --editable ".[experiments]"
	@touch $@

.venv/.installed-dev: .venv/.installed
	@echo "installing the tools for tests, checks and documentation into .venv"
	@$(install) --no-build-isolation --editable ".[dev,docs]"
	@touch $@
