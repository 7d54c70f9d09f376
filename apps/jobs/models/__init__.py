from apps.jobs.models.job import Job
from apps.jobs.models.job_type import JobType
from apps.jobs.models.type_state import TypeState
from apps.jobs.models.unique_lock import UniqueLock
from apps.jobs.models.worker import Worker

__all__ = ["Job", "JobType", "TypeState", "UniqueLock", "Worker"]
