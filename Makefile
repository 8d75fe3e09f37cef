# `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python

.PHONY: demo test ext clean

$(VENV)/.installed: pyproject.toml csrc/CMakeLists.txt $(wildcard csrc/*.cc csrc/*.h csrc/*/*.cc csrc/*/*.h)
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip scikit-build-core pybind11 cmake ninja
	$(PY) -m pip install -q --no-build-isolation --editable '.[dev]'
	touch $@

# Build the extension in place, for work on csrc.
ext:
	cmake -S csrc -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE=$(abspath $(PY)) \
	  -Dpybind11_DIR=$$($(PY) -m pybind11 --cmakedir) -DSPECGUIDE_INPLACE=ON
	cmake --build build/dev

clean:
	rm -rf build specguide/native/_native*.so $(VENV)/.installed
