# Most people need two commands: `make run` and `make test`. README.md explains both.
PYTHON ?= python3
VENV := .venv/bin

.PHONY: run test test-fast test-next test-long test-cluster check requirements locks

run: ## start everything: web, beat, sweeps and drains, on SQLite or DATABASE_URL
	@$(PYTHON) taskplatform/bootstrap.py run

test: ## every check and all short tests, on SQLite and on a private MariaDB + Redis
	@$(PYTHON) taskplatform/bootstrap.py test

test-fast: ## the suite on SQLite only, without browser
	@$(PYTHON) taskplatform/bootstrap.py test-fast

test-next: ## the suite without browser, and one walk over all pages, on the newest Python, Django and theme
	@$(PYTHON) taskplatform/bootstrap.py test-next

test-long: ## what `make test` leaves out: fuzz, kills, all pages, all time zones, the newest packages, a cluster
	@$(PYTHON) taskplatform/bootstrap.py test-long

test-cluster: ## what a Galera cluster loses when its writing node fails under load; minutes
	@$(PYTHON) taskplatform/bootstrap.py test-cluster

check: ## lint, format, types, import contracts, migrations, deployment check
	@$(PYTHON) taskplatform/bootstrap.py check

requirements: ## which tests prove which requirement; S=S0 fails on a gap in that section
	@$(VENV)/python -m tests.requirements $(S)

locks: ## update the lock files from pyproject.toml (hashes, no addresses)
	@$(PYTHON) taskplatform/bootstrap.py locks
