"""The bulk run of the demo: jobs for tomorrow were submitted by mistake, and are cancelled."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User

from apps.bulk.models import BulkRun
from apps.bulk.services import runs
from apps.bulk.services.selection import stored
from apps.bulk.services.targets import target_of
from apps.common.db import transactional
from apps.jobs.models import bounds_of
from apps.jobs.services.submit import Submission, submit_many
from taskplatform.demo.company import ACTOR, BULK_RUN
from taskplatform.demo.jobs import SLOW, context_of, ensure_job_types


@transactional
def cancel_a_mistake() -> BulkRun | None:
    """Submit the jobs and start the run; None when there have been runs, or while there is no
    administrator in whose name it could act."""
    person = User.objects.filter(is_superuser=True, is_staff=True, is_active=True).first()
    if person is None or BulkRun.objects.exists():
        return None
    ensure_job_types()
    key, count = BULK_RUN["key"], BULK_RUN["jobs"]
    letter = Submission(type=SLOW, key=key, context=context_of(SLOW), delay=timedelta(days=1))
    submit_many([letter] * count, by=ACTOR)
    return runs.start(
        selection=stored(target_of("jobs"), {"type": SLOW, "key": key}),
        verb="cancel",
        params={},
        at_most=count,
        actor=f"admin:{person.get_username()}",
        reason=BULK_RUN["reason"],
        bounds=bounds_of(person),
    )
