# The course on background jobs. `make help` lists what there is; each target sets up what it needs first.
# All paths are relative: an absolute one would break in a folder whose name has spaces.

VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
PARALLEL := -n 2 --dist loadfile
# On Linux the lab ends (SIGTERM) when make is killed, so that no lab and no port is left behind.
TIE := qlab/embedded/tie.py direct $$PPID 15 -1 -1

.DEFAULT_GOAL := help
.PHONY: help setup lab orders test test-quick test-slow check notebooks bench kill-test start handout doctor board clean reset

help: ## list the targets
	@echo 'make lab      the lessons: opens JupyterLab (LAB_ARGS="--no-browser --port=18999" are handed to it)'
	@echo 'make orders   the example shop of lesson 01: an API and a worker, until Ctrl-C'
	@echo 'make start EX=ex04   your own copy of an exercise, in my/'
	@echo 'make board    which goals of the course you have proved'
	@echo 'make doctor   is this machine fit? what to do when something fails'
	@echo 'make setup    the environment alone (PYTHON=/path/to/python3.12 chooses the interpreter)'
	@echo 'make test     set up, then all tests but the slow ones'
	@echo 'make test-quick   tests of the library alone, under 90 seconds'
	@echo 'make test-slow    the slow tests, one at a time'
	@echo 'make check    style, types, imports, stored notebooks'
	@echo 'make notebooks    run all lessons and solutions and store their outputs'
	@echo 'make bench    measure qlab beside its peers (BENCH_ARGS="--quick")'
	@echo 'make kill-test JOBS=10000 KILLS=10   kill workers at random and count; REDIS_RESTART=1 kills Redis too'
	@echo 'make handout  pack the course without its solutions'
	@echo 'make clean    delete caches; make reset  also the environment and your progress (never my/)'

setup: ## make .venv from requirements.txt
	@PYTHON="$(PYTHON)" sh tools/setup.sh

lab: setup ## open the lessons
	@exec $(PY) $(TIE) $(PY) -m qlab lab $(LAB_ARGS)

orders: setup ## examples/orders
	@exec $(PY) -m examples.orders

test: setup ## everything but the slow tests
	$(PYTEST) $(PARALLEL) -m "not slow" $(TEST_ARGS)
	$(PYTEST) $(PARALLEL) -m "not slow" --redis fakeredis tests/unit tests/redis

test-quick: setup ## the library alone
	$(PYTEST) $(PARALLEL) -m "not slow" tests/unit tests/redis $(TEST_ARGS)

test-slow: setup ## one at a time: timed cases need the machine for themselves
	$(PYTEST) -m slow $(TEST_ARGS)

check: setup ## style, types, imports, notebooks
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c 'from importlinter.cli import lint_imports_command as main; main()' --no-cache
	$(PY) -m qlab.classroom.checks

notebooks: setup ## run and store
	$(PY) -m qlab.classroom.notebooks

bench: setup ## measure
	$(PY) -m benchmarks $(BENCH_ARGS)

kill-test: setup ## one JSON line; fails when a promise is broken
	@$(PY) -m qlab.testing.kill_test $(if $(JOBS),--jobs $(JOBS)) $(if $(KILLS),--kills $(KILLS)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(REDIS_RESTART),--redis-restart)

start: setup ## make start EX=ex04
	@test -n "$(EX)" || { echo 'Name the exercise: make start EX=ex04' >&2; exit 1; }
	@$(PY) -m qlab start "$(EX)"

handout: setup ## without solutions
	@$(PY) -m qlab handout

doctor: setup
	@$(PY) -m qlab doctor

board: setup
	@$(PY) -m qlab board

clean: ## caches
	rm -rf .pytest_cache .hypothesis .ruff_cache .mypy_cache .import_linter_cache
	find qlab tests benchmarks examples tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

reset: clean ## also the environment and the progress
	rm -rf $(VENV) .qlab
