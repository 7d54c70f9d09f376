"""The jobs box of the admin."""

from apps.jobs.admin import job_types, jobs, journal_words, workers

__all__ = ["job_types", "jobs", "journal_words", "workers"]
