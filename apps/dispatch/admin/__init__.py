"""The dispatch box of the admin."""

from apps.dispatch.admin import dispatches, executors, once_tasks, rotate_tasks, templates

__all__ = ["dispatches", "executors", "once_tasks", "rotate_tasks", "templates"]
