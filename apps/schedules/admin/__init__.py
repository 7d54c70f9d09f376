"""Schedules in the admin."""

from apps.schedules.admin import journal_words, schedules

__all__ = ["journal_words", "schedules"]
