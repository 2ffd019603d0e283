# Every command of the project. `make` alone lists them; BENCH, PYTEST_ARGS and PYTHON can be set on the command line.

PYTHON ?= python3
VENV := .venv
BENCH ?= -m benchmarks.run --short
PYTEST_ARGS ?=

# The oldest jax that pyproject.toml allows; lineax above 0.1.0 asks for jax 0.10.
JAX09 := 0.9.0
LINEAX09 := 0.1.0
VENV09 := .venv-jax09

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Twice quiet: neither progress nor warnings about the reader's own pip settings, errors all the same.
PIP_INSTALL = -m pip install -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Both stamps of .venv install into the same place: never at once, whatever -j says.
.NOTPARALLEL:
.PHONY: help install demo test test-jax09 lint bench constraints clean

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

demo: $(VENV)/.installed-demo  ## fit the embedded example, print the scores, draw the figure
	@$(VENV)/bin/aligngp demo

test: $(VENV)/.installed-dev  ## run all tests
	@$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-jax09: $(VENV09)/.installed  ## run the tests marked jaxlib with jax 0.9, in an environment of its own
	@$(VENV09)/bin/python -m pytest -m jaxlib $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev  ## ruff check, ruff format --check, pyright
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/pyright

bench: $(VENV)/.installed-dev  ## run the short benchmarks; all of them: make bench BENCH="-m benchmarks.run"
	@$(VENV)/bin/python $(BENCH)

# The stamps are newer than what they were installed from, so an unchanged project installs nothing.
$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing aligngp into $(VENV) ..."
	@$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[plot]"
	@touch $@

# What a developer needs contains what the demo needs: both stamps.
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing aligngp and its development tools into $(VENV) ..."
	@$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[dev]"
	@touch $(VENV)/.installed-demo $@

$(VENV09)/.installed: pyproject.toml constraints.txt Makefile | $(VENV09)/bin/pip
	@echo "Installing aligngp with jax $(JAX09) into $(VENV09) ..."
	@sed -E -e 's/^(jax|jaxlib)==.*/\1==$(JAX09)/' -e 's/^lineax==.*/lineax==$(LINEAX09)/' constraints.txt > $(VENV09)/constraints.txt
	@$(VENV09)/bin/python $(PIP_INSTALL) -c $(VENV09)/constraints.txt -e ".[dev]"
	@touch $@

# bin/pip is the last thing that venv writes: an interrupted venv is made again. Order-only above: its date says nothing.
$(VENV)/bin/pip $(VENV09)/bin/pip:
	$(CHECK_PYTHON)
	@$(PYTHON) -m venv $(@D)/..

constraints:  ## write constraints.txt anew from the newest versions that fit together
	$(CHECK_PYTHON)
	@rm -rf $(VENV)-constraints
	@$(PYTHON) -m venv $(VENV)-constraints
	@$(VENV)-constraints/bin/python $(PIP_INSTALL) -e ".[dev]"
	@grep '^#' constraints.txt > $(VENV)-constraints/pins
	@$(VENV)-constraints/bin/python -m pip freeze --exclude-editable | awk -F == '/^[A-Za-z0-9._-]+==/ \
		{name = tolower($$1); gsub(/[-_.]+/, "-", name); print name "==" $$2}' | LC_ALL=C sort >> $(VENV)-constraints/pins
	@cp $(VENV)-constraints/pins constraints.txt
	@rm -rf $(VENV)-constraints

clean:  ## remove what the commands made: environments, caches, build products, the demo's figure
	@rm -rf $(VENV) $(VENV09) $(VENV)-constraints .benchmark-envs demo build dist src/*.egg-info
	@rm -rf .pytest_cache .ruff_cache .hypothesis
	@find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
