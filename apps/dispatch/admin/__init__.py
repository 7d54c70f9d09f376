"""The dispatch box of the admin."""

from apps.dispatch.admin import (
    archive,
    dispatches,
    executors,
    journal_words,
    once_tasks,
    rotate_tasks,
    templates,
)

__all__ = [
    "archive",
    "dispatches",
    "executors",
    "journal_words",
    "once_tasks",
    "rotate_tasks",
    "templates",
]
