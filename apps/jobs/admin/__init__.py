"""The jobs box of the admin."""

from apps.jobs.admin import archive, job_types, jobs, journal_words, workers

__all__ = ["archive", "job_types", "jobs", "journal_words", "workers"]
