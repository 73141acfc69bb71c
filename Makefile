# One set of verbs for people and CI. On a bare machine `./dev VERB` installs make and venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests of Slurm mostly wait: one worker a release (tests/conftest.py groups them), others for the rest.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadgroup
STAMP := $(VENV)/.installed

.PHONY: help venv fmt lint type imports check unit test demo picture capacity docs docker-demo docker-test lock wheel clean

help:              ## these verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

venv: $(STAMP)     ## the development environment, from the lock file

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

fmt: $(STAMP)      ## format and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP)     ## style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: $(STAMP)     ## types, strictly
	$(BIN)/mypy

imports: $(STAMP)  ## imports point one way
	$(BIN)/lint-imports

check: lint type imports ## all that needs no test run

unit: $(STAMP)     ## tests that need no Slurm
	$(BIN)/pytest -m "not slurm and not docker"

test: check        ## everything, with a real Slurm 24.11 and 26.05 (HPCMGR_SLURM=24.11: only that)
	$(BIN)/pytest $(PARALLEL)

demo: $(STAMP)     ## a whole cluster, jobs in neutral units on it (--once, --release 26.05)
	@$(BIN)/python -m lightcluster.demo

picture: $(STAMP)  ## docs/img anew, from real runs: the demo, the capacity view (needs chromium)
	$(BIN)/python -m lightcluster.demo --once --picture docs/img/demo.svg
	$(BIN)/python -m lightcluster.demo.capacity --pictures docs/img

capacity: $(STAMP) ## a busy mixed cluster: its capacity beside Slurm's own figures, one by one
	@$(BIN)/python -m lightcluster.demo.capacity

docs: $(STAMP)     ## the generated parts of docs/ anew, from the code
	$(BIN)/python docs/generate.py

docker-demo: $(STAMP) ## the same with a container for every host; a node dies, a network is cut
	$(BIN)/python docker-cluster/cluster.py demo

docker-test: $(STAMP) ## tests that need several hosts; starts Docker where none answers
	HPCMGR_DOCKER=1 $(BIN)/pytest tests/docker

lock: $(STAMP)     ## renew the lock file (needs uv)
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header -o requirements.lock

wheel: $(STAMP)    ## build the wheel into dist/
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean:             ## remove what was built here; clusters, cached root file systems
	-[ -x $(BIN)/python ] && $(BIN)/python docker-cluster/cluster.py down --cache
	-[ -x $(BIN)/python ] && $(BIN)/python -m lightcluster down --cache
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
