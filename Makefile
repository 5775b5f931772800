# Thin doors to the sessions in noxfile.py. All they need is python3 (3.11 or newer); they keep their tools in .venv
# and the sessions' environments in .nox, and once those are built no network is needed.
#
#   make test ARGS="-k mailbox"     arguments go to pytest (and likewise from the other targets to what they run)
#   make test PYTHONS="3.13"        only on these Pythons; otherwise on each of 3.11 to 3.14 that is found
#   make test PYTHON=python3.12     the interpreter that builds .venv

PYTHON ?= python3
ARGS ?=
NOX := .venv/bin/python -m nox

.DEFAULT_GOAL := help
.PHONY: help demo service test test-all ray lowest newest lock pyodide coverage attacks http kills bench bench-full bench-peers release workflows docs lint types check weekly clean tools

help:
	@echo "make demo         watch natural functions run on a small model on this machine"
	@echo "make service      serve natural functions over HTTP, with a dashboard, on the same model"
	@echo "make test         run the tests on every Python found among 3.11 to 3.14"
	@echo "make test-all     run the weekly tests too, and all cases of all tests"
	@echo "make ray          run the tests of workers on Ray, in an environment of their own"
	@echo "make lowest       run tests with the lowest releases of other packages that are allowed"
	@echo "make newest       run the same tests with their newest releases, whatever constraints.txt says"
	@echo "make lock         write the newest releases that are allowed into constraints.txt"
	@echo "make pyodide      run the tests of annotations on Python 3.14 in Pyodide"
	@echo "make check        lint, types, docs and tests: what a change must pass"
	@echo "make weekly       what takes too long for every change: test-all, lowest, newest, attacks, kills, bench, release"
	@echo "make lint         style and formatting (ARGS=--fix mends)"
	@echo "make types        strict type checking (ARGS=--report tells how complete the interface is)"
	@echo "make docs         build the documentation into site/ (ARGS=serve shows it)"
	@echo "make bench        run the benchmarks in a few minutes (ARGS=--quick for a short run)"
	@echo "make bench-full   run all benchmarks, the largest bursts included"
	@echo "make bench-peers  run them beside what others offer"
	@echo "make coverage     run the tests with branch coverage"
	@echo "make attacks      try 20,000 attacks on what code of a model may do"
	@echo "make http         compare how HTTP is read with h11, two million times"
	@echo "make kills        kill durable runs at every moment, some thousand times"
	@echo "make release      build a release, check it, install it as a stranger would"
	@echo "make workflows    check the files of the hosting service: workflows, forms, citation"
	@echo "make clean        remove everything that was built"

demo service test test-all ray lowest newest lock pyodide coverage attacks http kills bench bench-full bench-peers workflows docs lint types: tools
demo:     ; @$(NOX) -s demo -- $(ARGS)
service:  ; @$(NOX) -s service -- $(ARGS)
test:     ; @$(NOX) -s tests -- $(ARGS)
test-all: ; @$(NOX) -s test-all -- $(ARGS)
ray:      ; @$(NOX) -s ray -- $(ARGS)
lowest:   ; @$(NOX) -s lowest -- $(ARGS)
newest:   ; @$(NOX) -s newest -- $(ARGS)
lock:     ; @$(NOX) -s lock -- $(ARGS)
pyodide:  ; @$(NOX) -s pyodide -- $(ARGS)
coverage: ; @$(NOX) -s coverage -- $(ARGS)
attacks:  ; @$(NOX) -s attacks -- $(ARGS)
http:     ; @$(NOX) -s http -- $(ARGS)
kills:    ; @$(NOX) -s kills -- $(ARGS)
bench:    ; @$(NOX) -s bench -- $(ARGS)
bench-full:  ; @$(NOX) -s bench-full -- $(ARGS)
bench-peers: ; @$(NOX) -s bench-peers -- $(ARGS)
workflows:   ; @$(NOX) -s workflows -- $(ARGS)
docs:     ; @$(NOX) -s docs -- $(ARGS)
lint:     ; @$(NOX) -s lint -- $(ARGS)
types:    ; @$(NOX) -s types -- $(ARGS)

check: tools
	@$(NOX) -s lint types docs tests

release: tools
	@$(NOX) -s workflows release wheel sdist

weekly: tools
	@$(NOX) -s test-all lowest newest attacks kills bench workflows release wheel sdist

# The requirement is read from pyproject.toml; .venv is built again only when that or the interpreter is gone or new.
tools:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		found=$$($(PYTHON) --version 2>&1) || found="not there"; \
		echo "nighthawk-async needs Python 3.11 or newer, and '$(PYTHON)' is $$found." >&2; \
		echo "Install one, or name another: make $(or $(MAKECMDGOALS),test) PYTHON=python3.12" >&2; \
		exit 1; }
	@wanted="$$($(PYTHON) -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["nox"])')" || exit 1; \
	if [ "$$(cat .venv/prepared 2>/dev/null)" = "$$wanted" ] && .venv/bin/python -c 'import nox' 2>/dev/null; \
	then exit 0; fi; \
	echo "Setting up .venv (once) ..."; \
	rm -rf .venv && $(PYTHON) -m venv .venv && \
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $$wanted && \
	echo "$$wanted" > .venv/prepared

clean:
	rm -rf .venv .nox .cache site htmlcov build dist .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
