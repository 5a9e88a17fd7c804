# The agent from a checkout: tried, tested, installed. `make` alone lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The distribution's own interpreter, whatever comes first on PATH: only that one can import the distribution's bcc.
SYSTEM_PYTHON := /usr/bin/python3
VENV := .venv
AGENT := $(VENV)/bin/resctrl-agent
PIP := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check

lib := /usr/lib/resctrl-agent
doc := /usr/share/doc/resctrl-agent
units := /usr/lib/systemd/system
catalog := /usr/lib/systemd/catalog
etc := /etc/resctrl-agent

.PHONY: help
help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target text; do \
	    printf 'make %-12s %s\n' "$$target" "$$text"; done

# -- from the checkout ------------------------------------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/.for-running  ## prepare .venv/bin/resctrl-agent (and, as root, the packages it needs)

.PHONY: run
run: setup  ## the agent in the foreground on config/policy.yaml; on an emulated resctrl where the machine has none
	@$(VENV)/bin/python tests/trial/run.py config/policy.yaml

.PHONY: demo
demo: setup  ## a short tour with real processes and a changing policy, which ends by itself
	@$(VENV)/bin/python tests/trial/demo.py

.PHONY: test
test: $(VENV)/.for-testing  ## unit and emulated tests; without root those that need none
	@$(VENV)/bin/python -m pytest

.PHONY: lab
lab:  ## build guests with real kernels and emulated RDT and AMD QoS; as root on Debian, once, some 15 minutes
	@.ci/packages lab
	@$(SYSTEM_PYTHON) -m tests.kernel.lab build $(GUESTS)

.PHONY: test-kernel
test-kernel: $(VENV)/.for-testing  ## tests in those guests
	@$(VENV)/bin/python -m pytest tests/kernel

.PHONY: bench
bench: $(VENV)/.for-testing  ## speed and memory, beside a bare loop in C; as root, some minutes, on a quiet machine
	@$(VENV)/bin/python -m pytest tests/bench

.PHONY: lint
lint: $(VENV)/.for-testing  ## style, types, and who may import whom
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

.PHONY: clean
clean:  ## remove all that make made here, .venv too
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find agent tests -name __pycache__ -prune -exec rm -rf {} +

# Packages are looked at every time (it takes 0.1 s), the environment is renewed when what it is made from changed.
.PHONY: packages-to-run packages-to-test
packages-to-run:
	@.ci/packages run
packages-to-test:
	@.ci/packages test

$(VENV)/bin/python: | packages-to-run
	$(SYSTEM_PYTHON) -m venv --system-site-packages $(VENV)

$(VENV)/.for-running: pyproject.toml constraints.txt | packages-to-run $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt hatchling editables
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

$(VENV)/.for-testing: $(VENV)/.for-running | packages-to-test
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

.PHONY: wheel
wheel: $(VENV)/.for-running
	rm -rf build/wheel
	$(PIP) wheel --no-build-isolation --no-deps --wheel-dir build/wheel .

# -- on the machine ---------------------------------------------------------------------------------------------------

root := $(if $(DESTDIR),$(abspath $(DESTDIR)))

# Pip writes paths below DESTDIR into the command and the compiled files; they must be those of the machine that the
# files end up on.
.PHONY: install
install: wheel  ## install the command, the units and a policy if there is none (below DESTDIR)
	rm -rf $(root)$(lib)
	$(SYSTEM_PYTHON) -m venv --system-site-packages --without-pip $(root)$(lib)
	$(PIP) --python $(root)$(lib)/bin/python install --ignore-installed --no-compile --no-warn-script-location \
	    --constraint constraints.txt build/wheel/*.whl
	rm -f $(root)$(lib)/bin/[Aa]ctivate*
	sed -i 's|$(root)$(lib)|$(lib)|' $(root)$(lib)/bin/resctrl-agent $(root)$(lib)/pyvenv.cfg
	$(SYSTEM_PYTHON) -m compileall -q $(if $(root),-s $(root) -p /) $(root)$(lib)/lib
	install -d $(root)/usr/bin $(root)$(etc)/policy.d
	ln -sfn ../lib/resctrl-agent/bin/resctrl-agent $(root)/usr/bin/resctrl-agent
	install -D -m 0644 -t $(root)$(units) systemd/resctrl-agent.service systemd/sys-fs-resctrl.mount
	install -D -m 0644 -t $(root)$(catalog) systemd/resctrl-agent.catalog
	install -D -m 0644 -t $(root)$(doc) README.md CHANGELOG.md LICENSE docs/*.md
	install -D -m 0644 -t $(root)$(doc)/examples config/examples/*.yaml systemd/rules-on-exe.conf
	install -D -m 0644 bpf/LICENSE $(root)$(doc)/LICENSE.bpf
	install -m 0644 config/policy.schema.json $(root)$(etc)/policy.schema.json
	test -e $(root)$(etc)/policy.yaml || install -m 0644 config/policy.yaml $(root)$(etc)/policy.yaml
ifeq ($(root),)
	if command -v journalctl >/dev/null; then journalctl --update-catalog; fi
	if test -d /run/systemd/system; then systemctl daemon-reload; fi
	@echo "Installed. Look at $(etc)/policy.yaml, then: systemctl enable --now resctrl-agent"
endif

# As a package's removal does: what the administrator may have written stays, and so do groups that tasks are in.
.PHONY: uninstall
uninstall:  ## remove what install put there; the policy and the groups in force stay
ifeq ($(root),)
	if test -d /run/systemd/system; then systemctl disable --now resctrl-agent.service || true; fi
endif
	rm -rf $(root)$(lib) $(root)$(doc)
	rm -f $(root)/usr/bin/resctrl-agent $(root)$(catalog)/resctrl-agent.catalog $(root)$(etc)/policy.schema.json \
	    $(root)$(units)/resctrl-agent.service $(root)$(units)/sys-fs-resctrl.mount
	rmdir --ignore-fail-on-non-empty $(root)$(etc)/policy.d
ifeq ($(root),)
	if command -v journalctl >/dev/null; then journalctl --update-catalog; fi
	if test -d /run/systemd/system; then systemctl daemon-reload; fi
	@echo "Removed. $(etc) and /var/lib/resctrl-agent stay: remove them if nothing of them is wanted any more."
endif
