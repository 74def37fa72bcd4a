# Run `make help` for a list of commands.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
SETUP_PYTHON := $(firstword $(foreach name,python3.11 python3,$(shell command -v $(name) 2>/dev/null)) python3)

SEED ?= 1
OUT ?=
SOAK_STEPS ?= 500
FORMAT_PATHS := actor benchmarks configs examples exchange pipeline rollout scripts tests

# Tests use many small tensors, where a second thread per process costs more than it gains. No test may contact a hub.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 DS_ACCELERATOR=cpu

# Tests that have their own targets.
LEFT_OUT := not faults and not soak and not other_engines and not jobs

# GSM8K's files if they are beside the repository; otherwise the jobs train on rows of the same shape.
export GSM8K ?= $(wildcard ../shared/data/gsm8k)

.PHONY: help env quickstart smollm2 test test-fast test-engine test-other-engines lint format typecheck docs bench clean faults soak jobs

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

env: ## create or update .venv with everything for CPUs (4 minutes the first time)
	@$(SETUP_PYTHON) scripts/setup_env.py

quickstart: env ## train a small model on a CPU and show what it learned (SEED=1 OUT=FOLDER)
	@DS_ACCELERATOR=cpu $(PYTHON) -m examples.quickstart.quickstart --seed $(SEED) $(if $(OUT),--out "$(OUT)")

smollm2: env ## fetch SmolLM2-135M-Instruct into .models
	@$(PYTHON) scripts/smollm2.py

test: env ## run all tests, engine tests last (about half an hour on two cores)
	@$(TEST_ENV) $(PYTHON) -m pytest -n 2 -m "not engine and $(LEFT_OUT)"
	@$(TEST_ENV) $(PYTHON) -m pytest -m "engine and $(LEFT_OUT)"

test-fast: env ## run the tests that need no engine (under 2 minutes)
	@$(TEST_ENV) $(PYTHON) -m pytest -n 2 -m "not engine and $(LEFT_OUT)"

test-engine: env ## run the tests that start real engines, Ray or several processes
	@$(TEST_ENV) $(PYTHON) -m pytest -m "engine and $(LEFT_OUT)"

faults: env ## kill and hang parts of real runs, one after another (about half an hour)
	@$(TEST_ENV) $(PYTHON) -m pytest -m faults

jobs: env ## run the three jobs of the README, shortened by steps (a quarter of an hour; creates other engines once)
	@$(PYTHON) -m pytest tests/jobs

soak: env ## run hundreds of steps, killing a worker every 50; memory must not grow (SOAK_STEPS=500)
	@SOAK_STEPS=$(SOAK_STEPS) $(TEST_ENV) $(PYTHON) -m pytest -m soak

test-other-engines: env ## run the same cases on vLLM 0.8.5 and 0.18.1, if created by `proxrl engines create`
	@$(TEST_ENV) $(PYTHON) -m pytest -m other_engines

lint: env ## check everything with ruff
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check $(FORMAT_PATHS)

format: env ## fix and format with ruff
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format $(FORMAT_PATHS)

typecheck: env ## check the four packages with mypy
	@$(PYTHON) -m mypy

docs: env ## generate the reference pages and build docs/ into site/
	@$(PYTHON) scripts/generate_config_docs.py
	@$(PYTHON) scripts/generate_metric_docs.py
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet

BENCHMARKS := trainer_speed prox_methods rollout_speed weight_update

bench: env ## run the quick benchmarks against their baselines (a few minutes; JSON in runs/bench)
	@for name in $(BENCHMARKS); do $(PYTHON) -m benchmarks.$$name --json runs/bench/$$name.json || exit 1; done

clean: ## remove caches; keep runs, models and the environment
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	@find $(FORMAT_PATHS) -name __pycache__ -type d -prune -exec rm -rf {} +
