from typing import TypeAlias

from apps.jobs.models.archived_job import ArchivedJob
from apps.jobs.models.bounds import Bounds
from apps.jobs.models.bucket import Bucket
from apps.jobs.models.hold import Hold
from apps.jobs.models.inbox import InboxRow
from apps.jobs.models.job import Job
from apps.jobs.models.job_log import JobLog
from apps.jobs.models.job_type import JobType
from apps.jobs.models.key_state import KeyState
from apps.jobs.models.scope import JobScope, bounds_of
from apps.jobs.models.type_state import TypeState
from apps.jobs.models.unique_lock import UniqueLock
from apps.jobs.models.worker import Worker

# In whichever table it is.
AnyJob: TypeAlias = Job | ArchivedJob

__all__ = [
    "AnyJob",
    "ArchivedJob",
    "Bounds",
    "Bucket",
    "Hold",
    "InboxRow",
    "Job",
    "JobLog",
    "JobScope",
    "JobType",
    "KeyState",
    "TypeState",
    "UniqueLock",
    "Worker",
    "bounds_of",
]
