"""The signals of jobs that other apps may listen to.

from apps.jobs.signals import job_ended

@receiver(job_ended)
def count(sender, number, type, status, **_): ...
"""

from django.dispatch import Signal

# After the commit that ended a job, in the process that did it: a worker, a sweep, or a web process
# in which somebody cancelled it. `sender` is None; `number`, `type` and `status` (succeeded, failed
# or cancelled) are those of the job. What a receiver raises is logged, and the others are called.
job_ended = Signal()
