"""Flows and their runs in the admin."""

from apps.flows.admin import flows, journal_words, runs

__all__ = ["flows", "journal_words", "runs"]
