"""The journal in the admin: its own list, and timelines for the pages of what it tells of."""

from apps.journal.admin.entries import JournalEntryAdmin, latest_moments, moments

__all__ = ["JournalEntryAdmin", "latest_moments", "moments"]
