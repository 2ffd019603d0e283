# Every command of the project. `make` alone lists them; BENCH, PYTEST_ARGS, WORKERS and PYTHON can be set on the command line.

PYTHON ?= python3
VENV := .venv
BENCH ?= -m benchmarks.run --short
PYTEST_ARGS ?=
WORKERS ?= auto

# Beside the pinned jax: the oldest that pyproject.toml allows, and the newest in which LAPACK calls can deadlock
# (excluded there for a compiler fault, so the package is installed without asking about its dependencies).
OLDEST_JAX := 0.9.0
DEADLOCK_JAX := 0.10.2
JAXLIB_VENVS := $(VENV)-jax-$(OLDEST_JAX) $(VENV)-jax-$(DEADLOCK_JAX)

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Twice quiet: neither progress nor warnings about the reader's own pip settings, errors all the same.
PIP_INSTALL = -m pip install -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# All stamps of .venv install into the same place: never at once, whatever -j says.
.NOTPARALLEL:
.PHONY: help install demo test test-jaxlib test-botorch stress lint docs bench constraints clean

# What every recipe that makes an environment begins with.
define CHECK_PYTHON
@command -v $(PYTHON) > /dev/null || { \
	echo "There is no '$(PYTHON)' here. Install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "aligngp needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
endef

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/.installed-dev  ## make .venv with the package (editable) and everything a developer needs

demo: $(VENV)/.installed-demo  ## fit the embedded example, print the scores, write figure and report
	@$(VENV)/bin/aligngp demo --force

test: $(VENV)/.installed-dev  ## run all tests
	@$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

# Only the files with the mark are read: the others need packages that these environments do not have.
test-jaxlib: $(JAXLIB_VENVS:%=%/.installed)  ## run the tests marked jaxlib with other versions of jax, each in its environment
	@set -e; for venv in $(JAXLIB_VENVS); do \
		echo "Tests marked jaxlib in $$venv"; \
		$$venv/bin/python -m pytest -m jaxlib $$(grep -rlE --include='test_*.py' 'mark\.jaxlib' tests | LC_ALL=C sort) $(PYTEST_ARGS); \
	done

test-botorch: $(VENV)-botorch/.installed  ## run the tests of the BoTorch adapter in an environment with PyTorch
	@$(VENV)-botorch/bin/python -m pytest tests/test_botorch.py $(PYTEST_ARGS)

stress: $(VENV)/.installed-dev $(JAXLIB_VENVS:%=%/.installed)  ## run 5000 iterations on two cores with every jax, append to results/deadlock.csv
	@set -e; for venv in $(VENV) $(JAXLIB_VENVS); do $$venv/bin/python -m benchmarks.deadlock; done

lint: $(VENV)/.installed-dev  ## ruff check, ruff format --check, pyright
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/pyright

# Every page's code is run, and a link that leads nowhere is an error. The variable turns an advertisement off.
docs: $(VENV)/.installed-docs  ## build the documentation into site/, every example and tutorial run
	@NO_MKDOCS_2_WARNING=true $(VENV)/bin/mkdocs build --strict
	@echo "site/index.html"

bench: $(VENV)/.installed-dev  ## run the short benchmarks; all of them: make bench BENCH="-m benchmarks.run"
	@$(VENV)/bin/python $(BENCH)

# The stamps are newer than what they were installed from, so an unchanged project installs nothing.
$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing aligngp into $(VENV) ..."
	@$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[plot,report]"
	@touch $@

# What a developer needs contains what the demo needs: both stamps.
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing aligngp and its development tools into $(VENV) ..."
	@$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[dev]"
	@touch $(VENV)/.installed-demo $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing aligngp and what its documentation needs into $(VENV) ..."
	@$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[docs,plot,report]"
	@touch $@

# The package's dependencies but for jax, at the pinned versions, and what the marked tests need.
$(VENV)-jax-%/.installed: pyproject.toml constraints.txt Makefile | $(VENV)-jax-%/bin/pip
	@echo "Installing aligngp with jax $* into $(@D) ..."
	@sed -E -e 's/^(jax|jaxlib)==.*/\1==$*/' constraints.txt > $(@D)/constraints.txt
	@$(@D)/bin/python -c 'import re, tomllib; print(*(line for line in \
		tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"] if not re.match("jax(lib)?\\b", line)), sep="\n")' \
		> $(@D)/requirements.txt
	@$(@D)/bin/python $(PIP_INSTALL) -c $(@D)/constraints.txt -r $(@D)/requirements.txt jax jaxlib beartype pytest
	@$(@D)/bin/python $(PIP_INSTALL) --no-deps -e .
	@touch $@

# BoTorch and what it needs, all pinned, then the package without asking about its dependencies again.
$(VENV)-botorch/.installed: pyproject.toml constraints.txt benchmarks/peers/requirements-torch.txt Makefile | $(VENV)-botorch/bin/pip
	@echo "Installing aligngp with BoTorch into $(@D) ..."
	@$(@D)/bin/python $(PIP_INSTALL) --no-deps -r benchmarks/peers/requirements-torch.txt
	@$(@D)/bin/python -c 'import re, tomllib; print(*(line for line in \
		tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]), sep="\n")' > $(@D)/requirements.txt
	@$(@D)/bin/python $(PIP_INSTALL) -c constraints.txt -r $(@D)/requirements.txt beartype pytest
	@$(@D)/bin/python $(PIP_INSTALL) --no-deps -e .
	@touch $@

# bin/pip is the last thing that venv writes: an interrupted venv is made again. Order-only above: its date says nothing.
$(VENV)/bin/pip $(VENV)-botorch/bin/pip $(JAXLIB_VENVS:%=%/bin/pip):
	$(CHECK_PYTHON)
	@$(PYTHON) -m venv $(@D)/..

constraints:  ## write constraints.txt anew from the newest versions that fit together
	$(CHECK_PYTHON)
	@rm -rf $(VENV)-constraints
	@$(PYTHON) -m venv $(VENV)-constraints
	@$(VENV)-constraints/bin/python $(PIP_INSTALL) -e ".[dev,docs,simulators]"
	@grep '^#' constraints.txt > $(VENV)-constraints/pins
	@$(VENV)-constraints/bin/python -m pip freeze --exclude-editable | awk -F == '/^[A-Za-z0-9._-]+==/ \
		{name = tolower($$1); gsub(/[-_.]+/, "-", name); print name "==" $$2}' > $(VENV)-constraints/frozen
	@# PyTorch is not installed here: its pins are those of the benchmark's environment.
	@awk -F == '/^[A-Za-z]/ {name = tolower($$1); gsub(/[-_.]+/, "-", name); if (!(name in seen)) print name "==" $$2; seen[name] = 1}' \
		$(VENV)-constraints/frozen benchmarks/peers/requirements-torch.txt | LC_ALL=C sort >> $(VENV)-constraints/pins
	@cp $(VENV)-constraints/pins constraints.txt
	@rm -rf $(VENV)-constraints

clean:  ## remove what the commands made: environments, caches, build products, the demo's figure, the site
	@rm -rf $(VENV) $(VENV)-jax-* $(VENV)-botorch $(VENV)-constraints .benchmark-envs demo site build dist src/*.egg-info
	@rm -rf .pytest_cache .ruff_cache .hypothesis
	@find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
