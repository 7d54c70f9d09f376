"""The journal in the admin: its list, and timelines for the pages of its subjects."""

from apps.journal.admin.entries import JournalEntryAdmin, latest_moments, moments
from apps.journal.admin.recorded import RecordedAdmin
from apps.journal.admin.sinks import SinkAdmin, SinkRejectAdmin

__all__ = [
    "JournalEntryAdmin",
    "RecordedAdmin",
    "SinkAdmin",
    "SinkRejectAdmin",
    "latest_moments",
    "moments",
]
