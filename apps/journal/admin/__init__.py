"""The journal in the admin: its list, and timelines for the pages of its subjects."""

from apps.journal.admin.entries import JournalEntryAdmin, latest_moments, moments

__all__ = ["JournalEntryAdmin", "latest_moments", "moments"]
