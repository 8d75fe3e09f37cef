# `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
NATIVE := csrc/CMakeLists.txt $(wildcard csrc/*.cc csrc/*.h csrc/*/*.cc csrc/*/*.h)
# An editable install knows the modules there were when it was made.
MODULES   := $(shell find specguide -name '*.py' | sort | cksum | cut -d' ' -f1)
INSTALLED := $(VENV)/.installed-$(MODULES)

.PHONY: demo test lint ext sanitize sanitize-gpu sanitized-tests clean

demo: $(INSTALLED)
	$(VENV)/bin/specguide generate --schema examples/person.json < examples/person.txt

test: $(INSTALLED) lint
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 2

lint: $(INSTALLED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

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

# The Triton kernels under compute-sanitizer, on a GPU; PY=python3 takes another Python, with an extension built for it.
# It slows kernels 10 to 100 times, so of the kernel tests those that touch every kernel at sizes that fill no block:
# groups of 7 heads, heads of 80, split keys, trees, 33 and 5000 tokens, rows of 3 and 96. None captures a graph, which
# needs the caching allocator; without it each tensor is an allocation of its own, and memcheck sees where it ends.
COMPUTE_SANITIZER ?= compute-sanitizer
SANITIZED := $(foreach dtype,0 1 2,attention.py::test_shapes[heads1-80-dtype$(dtype)] \
    attention.py::test_rope_and_store[heads1-80-dtype$(dtype)] masks.py::test_apply_bitmask[23-33-dtype$(dtype)] \
    masks.py::test_argmax_over_the_whole_vocabulary[5000-dtype$(dtype)] masks.py::test_top_k[7000-dtype$(dtype)-True] \
    pointwise.py::test_norms[3-96-dtype$(dtype)] \
    pointwise.py::test_norm_of_heads[80-dtype$(dtype)] \
    pointwise.py::test_norms_of_rows_into_a_part_of_what_there_is[dtype$(dtype)] pointwise.py::test_silu_mul[1-3-dtype$(dtype)] \
    linear.py::test_products[shape1-dtype$(dtype)-True] linear.py::test_products[shape3-dtype$(dtype)-False]) \
  attention.py::test_tree[2] attention.py::test_number_of_splits_does_not_matter[5] attention.py::test_any_batch[1] \
  attention.py::test_store_into_another_dtype_and_of_nothing chain.py::test_chains_are_placed_as_on_a_cpu[3] \
  chain.py::test_chains_are_accepted_as_on_a_cpu[4] chain.py::test_drafts_are_stored_as_on_a_cpu \
  tree.py::test_trees_are_accepted_as_on_a_cpu $(foreach heads,0 1,tree.py::test_keys_are_moved_as_on_a_cpu[heads$(heads)]) \
  $(foreach tree,0 6 9,tree.py::test_trees_grow_as_on_a_cpu[expansion$(tree)]) tree.py::test_trees_are_placed_as_on_a_cpu[3-250] \
  masks.py::test_rows_that_count_are_copied_and_no_others[33] masks.py::test_top_k[7-dtype0-False] \
  masks.py::test_argmax_over_the_whole_vocabulary[33-dtype0] masks.py::test_apply_bitmask[260-33-dtype1] \
  $(foreach rows,3 301 641,masks.py::test_argmax_over_a_draft_vocabulary[1500-dtype0-$(rows)]) \
  masks.py::test_only_allowed_token_is_drafted_though_the_draft_vocabulary_lacks_it[1055-640] \
  masks.py::test_columns_of_row_ids_and_bits_past_the_vocabulary masks.py::test_sample[33-all] masks.py::test_sample[5000-all]
SANITIZED_TESTS = $(foreach test,$(SANITIZED),'tests/gpu/test_gpu_kernels_$(test)')
sanitized-tests:
	@printf '%s\n' $(SANITIZED_TESTS)
sanitize-gpu: SANITIZE = $(COMPUTE_SANITIZER) --error-exitcode 1 --target-processes application-only
sanitize-gpu: TESTS = -m pytest -p no:xdist --timeout 0 $(SANITIZED_TESTS)
sanitize-gpu:
	@$(PY) -c "import sys, torch; torch.cuda.is_available() or sys.exit('sanitize-gpu needs a CUDA device')"
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 $(SANITIZE) --tool memcheck --report-api-errors no --padding 64 $(PY) $(TESTS)
	$(SANITIZE) --tool racecheck $(PY) $(TESTS)

clean:
	rm -rf build specguide/native/_native*.so $(VENV)/.installed-*

$(PY):
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml $(NATIVE) | $(PY)
	$(PY) -m pip install -q scikit-build-core pybind11 cmake ninja
	$(PY) -m pip install -q --no-build-isolation --editable '.[dev]'
	touch $@
