# The project's commands. Each works on a fresh machine that has Python 3.11 to 3.13.
PYTHON ?= python3
# Not `?=`: many shells export LANGUAGE for other purposes; `make quickstart LANGUAGE=zh` still works.
LANGUAGE = en
VENV ?= .venv
# Processes that share the tests, or the targets of the fuzzer; each takes up to 6 GB of memory.
JOBS ?= 2
# A file's tests share what they have made, so they stay together; the order is that of names, in which small files come last.
BY_FILE = --dist loadfile --no-loadscope-reorder
OUTPUT ?= quickstart-$(LANGUAGE)
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
# With PRETRAINED=1 the quickstart fetches a network that others have trained, and tunes it on the same rows beside its own.
PRETRAINED ?=
# With LOCKED=1 the quickstart takes the very files of requirements.lock, by their hashes.
LOCKED ?=
INSTALLED = $(if $(LOCKED),$(STAMP)-locked,$(STAMP))
# For the fuzzer: minutes, or ROUNDS, in which every command has its turn; SEED repeats a run, ONLY takes a verb or a target.
MINUTES ?= 10
ROUNDS ?=
SEED ?=
ONLY ?=
REPORT ?=

# $(call install,WHAT): uv takes a third of pip's time. It does not read pip's settings: constraints are handed on, and where these name
# an index, or uv does not find everything, pip installs. Bytecode is made here only if Python is told to write none later.
define install
	@if $(BIN)/python -m pip config list 2>/dev/null | grep -Eq '\.(index-url|no-index)=' \
	  || ! $(BIN)/python -m pip install --quiet --disable-pip-version-check uv \
	  || ! UV_CONSTRAINT="$$($(BIN)/python -m pip config list | sed -n "s/.*\.constraint='\(.*\)'/\1/p")" \
	    $(BIN)/uv pip install --quiet --python $(BIN)/python $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode) $(1); then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check $(1); fi
endef

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-long test-extras test-tf220 fuzz lint audit docs lock format clean

help:  ## Lists the targets
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile
	@echo "Variables: PYTHON ($(PYTHON)), VENV ($(VENV)); for tests and fuzz JOBS ($(JOBS)); for quickstart LANGUAGE=en|zh ($(LANGUAGE)), OUTPUT ($(OUTPUT)), PRETRAINED=1, LOCKED=1;"
	@echo "for fuzz MINUTES ($(MINUTES)), ROUNDS, SEED, ONLY, REPORT."

$(BIN)/python:
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 13); sys.exit(0 if ok else \
	  f"Python {sys.version.split()[0]}: TensorFlow has wheels for 3.11 to 3.13, and Keras 3.15 needs 3.11. Try: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(BIN)/python setup.py
	@echo "Installing xmodels and what it needs (about 3 GB with TensorFlow; one to three minutes) ..."
	$(call install,-e .)
	@touch $@

$(STAMP)-locked: $(BIN)/python setup.py requirements.lock
	@echo "Installing the versions of requirements.lock (about 3 GB with TensorFlow; one to three minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

TESTS = test,lint
$(STAMP)-test: $(BIN)/python setup.py
	@echo "Installing xmodels, what it needs and what its tests need (about 3 GB with TensorFlow; one to three minutes) ..."
	$(call install,-e '.[$(TESTS)]')
	@touch $(STAMP) $@

quickstart: $(INSTALLED)  ## From raw text to a served model in eight minutes (LANGUAGE=zh for Chinese, PRETRAINED=1 for a published network beside it)
	@$(BIN)/xmodels quickstart --language=$(LANGUAGE) --output_dir=$(OUTPUT) $(if $(PRETRAINED),--pretrained)

EXTRAS = beam,dask,grpc,litert,notebook,numba,onnx,rouge,search,serve,serve-test,tpu-preflight
$(STAMP)-extras: $(STAMP)-test
	$(call install,-e '.[$(EXTRAS)]')
	@# PyPI's torch for Linux brings some 3 GB of CUDA, so only a wheel for CPUs that pip finds in folders of its own is taken.
	@if $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps torch 2>/dev/null; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    "transformers>=5" filelock fsspec jinja2 networkx sympy typing-extensions; \
	else echo "No wheel of torch in PIP_FIND_LINKS: tests that need PyTorch are skipped."; fi
	@# Beam asks for a protobuf below 7, with which transformers cannot read sentencepiece's models; its tests pass with 7 too.
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check "protobuf>=7" 2>/dev/null
	@touch $@

test: $(STAMP)-test  ## Installs what the tests need and runs them
	@$(BIN)/python -m pytest -q -n $(JOBS) $(BY_FILE) -m "not extra and not long"

test-long: $(STAMP)-test  ## Runs what `make test` leaves out for its time: SIGKILL, clusters, more whole runs and exports
	@$(BIN)/python -m pytest -q -n $(JOBS) $(BY_FILE) -m long

test-extras: $(STAMP)-extras  ## Installs Beam, Jupyter, a server, ONNX, LiteRT and the TPU compiler too and runs the tests that need them
	@$(BIN)/python -m pytest -q -n $(JOBS) $(BY_FILE) -m "extra and not long" $$(grep -rl 'mark\.extra' tests --include='test_*.py' | sort)

# tensorflow-tpu ends at 2.20, so what trains is tested there too; outside of CI, for it is another 3 GB.
ENGINE_TESTS = tests/training/test_learner.py tests/training/test_training.py tests/training/test_training_killed.py tests/training/test_cluster.py tests/training/test_strategies.py \
  tests/training/test_optimizers.py tests/batches/test_grouping.py
$(VENV)-tf220/.installed: setup.py
	$(PYTHON) -m venv $(VENV)-tf220
	@$(VENV)-tf220/bin/python -m pip install --quiet --disable-pip-version-check \
	  "tensorflow==2.20.*" "tensorflow-text==2.20.*" -e ".[test]"
	@touch $@

test-tf220: $(VENV)-tf220/.installed  ## Runs the tests of the engine on TensorFlow 2.20, the newest for TPUs
	@$(VENV)-tf220/bin/python -m pytest -q -n $(JOBS) $(BY_FILE) $(ENGINE_TESTS)

fuzz: $(STAMP)-test  ## Runs all verbs on damaged files and odd flags for MINUTES=10, and fails where one misbehaves
	@$(BIN)/python -m tests.fuzz --jobs=$(JOBS) --minutes=$(MINUTES) $(if $(ROUNDS),--rounds=$(ROUNDS)) $(if $(SEED),--seed=$(SEED)) \
	  $(if $(ONLY),--only="$(ONLY)") $(if $(REPORT),--report=$(REPORT))

# The rooms whose types others build on; settings stand in pyproject.toml.
TYPED = xmodels/__init__.pyi xmodels/api.py xmodels/interfaces xmodels/training data_pipelines/layout.py data_pipelines/layouts

lint: $(STAMP)-test audit  ## Checks style, formatting and types, and asks for known vulnerabilities of what is locked
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(wildcard $(TYPED))

audit: $(STAMP)-test  ## Asks pip-audit about requirements.lock; skips where no service answers
	@$(BIN)/python -m tests.audit

$(STAMP)-docs: $(STAMP)
	$(call install,-e '.[docs]')
	@touch $@

docs: $(STAMP)-docs  ## Makes a site of the documentation in build/site; fails at a link that leads nowhere
	@$(BIN)/python -m sphinx -W --keep-going -q -c docs -d build/doctrees -b html . build/site
	@echo "build/site/index.html"

# uv finds versions for all Pythons and systems at once. Neither the name of a registry nor a folder gets into the file.
lock: $(BIN)/python  ## Writes requirements.lock anew, with the newest versions that setup.py allows
	@test -x $(VENV)-lock/bin/uv || { $(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip install --quiet uv; }
	@$(VENV)-lock/bin/uv pip compile setup.py --universal --python-version 3.11 --generate-hashes --upgrade --quiet --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --output-file requirements.lock

format: $(STAMP)-test  ## Formats the code and fixes what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:  ## Removes the virtual environment and what quickstart has written
	rm -rf $(VENV) $(VENV)-tf220 $(VENV)-lock fuzz-finds quickstart-en quickstart-zh build *.egg-info
