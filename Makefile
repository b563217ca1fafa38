# Every target works on a fresh machine with Python 3.11 or later and make.

PYTHON ?= python3
SECONDS ?= 600
SEED ?= 0
BASE ?= HEAD
COSTS ?= tests/unit

# The release of xDSL in .venv, whose output the pages show.
XDSL ?= 0.75

# The tested releases of xDSL, and the newest one, which nobody may have tested yet.
XDSL_RELEASES ?= 0.73 0.74 0.75 newest

# What the environments of `make xdsl-newest` and `make xdsl-jax` have: the package xdsl-jax
# is another plugin with a dialect stablehlo, and needs this release of xDSL.
XDSL_newest := 'xdsl'
XDSL_jax := 'xdsl==0.73.*' 'xdsl-jax==0.6.*'
JAX_TESTS := tests/unit/frontends/stablehlo tests/unit/quantizer tests/unit/test_docs.py

# Silences an advertisement in the output of mkdocs-material.
export NO_MKDOCS_2_WARNING := 1

# Hundreds of processes of the tests import the package.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready
MLIR24_READY := .venv-mlir24/.ready
TOSA_READY := .venv-tosa/.ready
PACKAGES := pyproject.toml examples/ml_dialect/pyproject.toml

.PHONY: help venv demo tests pytest check costs filecheck lint pages format fuzz mlir24 prove prove-mutants oracles \
	formats cpus tosa-tools iree onnx-models host-check xdsl-versions mutants quantizers bench notebook docs clean

help:
	@echo "make demo       run real int8 models as integer code, compare all tensors with LiteRT's, and quantize one"
	@echo "make tests      pytest, filecheck, lint and pages: what CI runs"
	@echo "make pytest     unit, execution and conformance tests"
	@echo "make check      ruff, and unit tests and types of files changed since BASE=HEAD (a minute)"
	@echo "make costs      list time, uniquely covered lines and uniquely killed mutants of each test"
	@echo "                (COSTS=tests/unit MUTANTS='xdsl_quant.numerics.fixed_point.*')"
	@echo "make filecheck  lit tests of IR before and after passes"
	@echo "make lint       ruff and basedpyright"
	@echo "make pages      build the documentation strictly, without running notebooks"
	@echo "make format     format the code"
	@echo "make fuzz       compare random inputs with MLIR 22 and 24, and compiled random graphs for each CPU"
	@echo "                with TensorFlow Lite's kernels; draw other examples in tests (SECONDS=600 SEED=0)"
	@echo "make mlir24     install MLIR 24 for 'make tests' and 'make fuzz', into .venv-mlir24"
	@echo "make prove      prove properties of casts of many types, certify networks (twenty minutes)"
	@echo "make prove-mutants  refute 150 mutants of the arithmetic by proofs (five minutes)"
	@echo "make oracles    compare random models with TensorFlow Lite's kernels (ORACLES='--ops ADD'),"
	@echo "                run all cases of the tests that 'make tests' samples, and run"
	@echo "                the tests of the core with each slice deleted"
	@echo "make formats    compare named formats with the libraries that define them (installs 6 GB)"
	@echo "make cpus       run the execution tests for each CPU level that this machine supports,"
	@echo "                and compare 45,000 small functions with the interpreter (CPUS='--count 1000')"
	@echo "make tosa-tools install TOSA's reference model for 'make oracles', into .venv-tosa"
	@echo "make onnx-models ONNX_MODELS=FOLDER   compare public ONNX models with onnxruntime"
	@echo "make iree       compile seven models with IREE, and compare all values (installs 600 MB)"
	@echo "make host-check run xDSL's own filecheck tests with and without the plugin"
	@echo "make xdsl-versions  run the tests with each supported release of xDSL and the newest,"
	@echo "                and those of StableHLO models beside the package xdsl-jax"
	@echo "make mutants    mutate the arithmetic and list changes that no test detects (an hour)"
	@echo "make bench      measure time and memory, compared with MLIR, onnxruntime and torch"
	@echo "                (QUICK=1: small sizes, which only test that benchmarks work)"
	@echo "make quantizers compare quantized networks with those of litert-quantizer and onnxruntime"
	@echo "make notebook   open the notebooks in JupyterLab"
	@echo "make docs       build the documentation into site/"

# One environment has the extras of all targets, so it is never half installed.
$(READY): $(PACKAGES) Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Installing xDSL, NumPy, MLIR and the tools of tests and documentation into .venv:"
	@echo "1.6 GB, which takes some minutes."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check \
		-e '.[dev]' -e examples/ml_dialect 'xdsl==$(XDSL).*'
	@# Real StableHLO, for tests. --no-deps, as it depends on an old version of xdsl.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps 'litert-converter>=0.5,<0.6' || \
		echo "No real StableHLO for this system: tests against it are skipped."
	@touch $@

venv: $(READY)

demo: $(READY)
	$(BIN)/python -m examples.wake_word
	$(BIN)/python -m examples.classifiers

# basedpyright takes one core for minutes, so the others run beside pytest.
tests: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 pytest filecheck lint pages

pytest: $(READY)
	$(BIN)/python -m pytest -q -n auto --dist loadscope --no-loadscope-reorder

# Since BASE, a commit.
check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH=$(BIN):$$PATH $(BIN)/python -m tests.check $(BASE)

costs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'coverage>=7.6,<8' \
		'mutmut>=3.8,<3.9'
	$(BIN)/python -m tests.costs $(COSTS) --mutants $(MUTANTS)

filecheck: $(READY)
	$(BIN)/lit --order=smart -q tests/filecheck

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

# The tests run the notebooks. With --quiet, --strict ignores warnings.
pages: $(READY)
	EXECUTE_NOTEBOOKS=false $(BIN)/mkdocs build --strict --site-dir .venv/site

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(READY) $(MLIR24_READY)
	$(BIN)/python -m tests.conformance.fuzz --seconds $(SECONDS) --seed $(SEED)
	test ! -e $(MLIR24_READY) || $(BIN)/python -m tests.conformance.fuzz \
		--release 24 --seconds $(SECONDS) --seed $(SEED)
	$(BIN)/python -m tests.oracles.graphs --seconds $(SECONDS) --seed $(SEED)
	$(BIN)/python -m pytest -q -n auto --hypothesis-seed=$(SEED) \
		tests/agreement tests/conformance
	$(BIN)/python -m pytest -q -n auto --hypothesis-seed=$(SEED) \
		-m hypothesis tests/unit

mlir24: $(MLIR24_READY)

# A build of MLIR's main branch. --no-deps, as only the bindings of MLIR are used.
$(MLIR24_READY): Makefile
	@rm -rf .venv-mlir24
	$(PYTHON) -m venv .venv-mlir24
	@.venv-mlir24/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps 'torch-mlir==20261001' && touch $@ || \
		{ rm -rf .venv-mlir24; \
		echo "No MLIR 24 for this system: comparisons with it are skipped."; }

prove: $(READY)
	$(BIN)/python -m tests.proving
	$(BIN)/python -m tests.oracles.certificates --inputs 50000 breast_cancer residual attention

prove-mutants: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mutmut>=3.8,<3.9'
	$(BIN)/python -m tests.proving.mutants
	$(BIN)/python -m tests.proving.kernel_mutants

oracles: $(READY) $(TOSA_READY)
	$(BIN)/python -m tests.oracles $(ORACLES)
	$(BIN)/python -m tests.oracles.tosa
	$(BIN)/python -m tests.oracles.qdq
	$(BIN)/python -m tests.oracles.fake_quantization
	$(BIN)/python -m tests.oracles.onnx_files
	$(BIN)/python -m tests.oracles.onnx_quantized
	$(BIN)/python -m tests.oracles.stablehlo_to_tfl
	$(BIN)/python -m tests.propagation
	$(BIN)/python -m pytest -q -n auto --all-cases -m sampled
	$(BIN)/python -m tests.slices

# Their pins clash, so each oracle has an environment of its own.
.venv-gguf/.ready: Makefile
	$(PYTHON) -m venv .venv-gguf
	.venv-gguf/bin/python -m pip install --quiet --disable-pip-version-check \
		'gguf>=0.19,<0.20'
	@touch $@

.venv-torchao/.ready: Makefile
	$(PYTHON) -m venv .venv-torchao
	.venv-torchao/bin/python -m pip install --quiet --disable-pip-version-check \
		'torch>=2.13,<3' 'torchao==0.18.0' 'bitsandbytes==0.50.2' numpy
	.venv-torchao/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		'auto-gptq==0.7.1' 'autoawq==0.2.9'
	@touch $@

formats: .venv-gguf/.ready .venv-torchao/.ready $(TOSA_READY)
	.venv-gguf/bin/python -m tests.oracles.formats $(FORMATS) gguf
	.venv-torchao/bin/python -m tests.oracles.formats $(FORMATS) torchao bitsandbytes packed
	.venv-tosa/bin/python -m tests.oracles.formats $(FORMATS) tosa

cpus: $(READY)
	for cpu in $$($(BIN)/python -c \
		'from xdsl_quant.execution.cpu import available_cpus; print(*available_cpus())'); do \
		$(BIN)/python -m pytest -q -n auto --cpu $$cpu tests/unit/execution || exit 1; done
	$(BIN)/python -m tests.cpus $(CPUS)

tosa-tools: $(TOSA_READY)

# They need an old NumPy, so they are never in .venv.
$(TOSA_READY): Makefile
	@rm -rf .venv-tosa
	$(PYTHON) -m venv .venv-tosa
	@.venv-tosa/bin/python -m pip install --quiet --disable-pip-version-check \
		'tosa-tools==2026.8.0' 'tosa-converter-for-tflite==2026.2.0' && touch $@ || \
		{ rm -rf .venv-tosa; \
		echo "No TOSA reference model for this system: comparisons with it are skipped."; }

# IREE has its own MLIR and NumPy.
.venv-iree/.ready: Makefile
	$(PYTHON) -m venv .venv-iree
	.venv-iree/bin/python -m pip install --quiet --disable-pip-version-check \
		'iree-base-compiler==3.13.*' 'iree-base-runtime==3.13.*'
	@touch $@

# A folder with unpacked wheels: see tests/oracles/onnx_models.py.
onnx-models: $(READY)
	$(BIN)/python -m tests.oracles.onnx_models $(ONNX_MODELS)

iree: $(READY) .venv-iree/.ready
	$(BIN)/python -m tests.oracles.iree $(IREE)

host-check: $(READY)
	$(BIN)/python -m tests.host.compare

xdsl-versions: $(addprefix xdsl-,$(XDSL_RELEASES)) xdsl-jax

# All packages but those with commands that must run on this xDSL are those of .venv. pip
# would find these there, too, and make no commands, so it ignores what is installed.
.PRECIOUS: .venv-xdsl-%/.ready
.venv-xdsl-%/.ready: $(READY)
	$(BIN)/python -m venv .venv-xdsl-$*
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
		$$(.venv-xdsl-$*/bin/python -c \
		'import sysconfig; print(sysconfig.get_path("purelib"))')/venv.pth
	.venv-xdsl-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--ignore-installed -e . -e examples/ml_dialect \
		$(or $(XDSL_$*),'xdsl==$*.*') 'filecheck>=1.0,<2' 'lit>=18,<24'
	@touch $@

xdsl-%: .venv-xdsl-%/.ready
	.venv-xdsl-$*/bin/python -m pytest -q -n auto --dist loadscope tests/unit \
		-W 'ignore:xDSL .* is newer'
	.venv-xdsl-$*/bin/lit --order=smart -q tests/filecheck

xdsl-jax: .venv-xdsl-jax/.ready
	.venv-xdsl-jax/bin/python -m pytest -q -n auto --dist loadscope $(JAX_TESTS)
	.venv-xdsl-jax/bin/lit --order=smart -q tests/filecheck/frontends/stablehlo

mutants: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mutmut>=3.8,<3.9'
	$(BIN)/python -m tests.mutants $(MUTANTS)

# It pins other packages.
.venv-litert/.ready:
	$(PYTHON) -m venv .venv-litert
	.venv-litert/bin/python -m pip install --quiet --disable-pip-version-check \
		'litert-quantizer>=0.11,<0.12'
	@touch $@

quantizers: $(READY) .venv-litert/.ready
	$(BIN)/python -m benchmarks.quantizers --litert .venv-litert/bin/python
	$(BIN)/python -m benchmarks.quantizers.blocks --litert .venv-litert/bin/python
	$(BIN)/python -m benchmarks.quantizers.deep_networks --litert .venv-litert/bin/python
	$(BIN)/python -m benchmarks.quantizers.onnx_networks

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

# As root, the user of many containers, Jupyter starts only with --allow-root.
notebook: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'jupyterlab>=4,<5'
	$(BIN)/jupyter lab docs/notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

docs: $(READY)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .venv-* build/host site .pytest_cache .ruff_cache .hypothesis
