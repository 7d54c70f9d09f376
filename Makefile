# Two commands matter: `make run` and `make test`. README explains both.
PYTHON ?= python3
VENV := .venv/bin

.PHONY: run test test-fast test-calendar check requirements locks

run: ## start everything: web, beat, sweeps and drains, on SQLite or what DATABASE_URL says
	@$(PYTHON) taskplatform/bootstrap.py run

test: ## every check and the whole suite, on SQLite and on a private MariaDB + Redis
	@$(PYTHON) taskplatform/bootstrap.py test

test-fast: ## the suite on SQLite only, without browser
	@$(PYTHON) taskplatform/bootstrap.py test-fast

test-calendar: ## rotations in every time zone, at every change of its clocks from 1970 to 2037
	@$(PYTHON) taskplatform/bootstrap.py test-calendar

check: ## lint, format, types, import contracts, migrations, deployment check
	@$(PYTHON) taskplatform/bootstrap.py check

requirements: ## which test proves which requirement; S=S0 fails on a gap in that section
	@$(VENV)/python -m tests.requirements $(S)

locks: ## pin anew what pyproject.toml asks for (hashes, no addresses)
	@$(PYTHON) taskplatform/bootstrap.py locks
