"""Bulk runs in the admin: the page before one, its own page, and the list."""

from apps.bulk.admin import journal_words, runs

__all__ = ["journal_words", "runs"]
