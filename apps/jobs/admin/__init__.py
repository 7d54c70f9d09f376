"""The jobs box of the admin."""

from apps.jobs.admin import archive, inbox, job_types, jobs, journal_words, workers

__all__ = ["archive", "inbox", "job_types", "jobs", "journal_words", "workers"]
