"""The outbox: jobs that a Django project writes in the transaction of its own data.

    from taskplatform_client.outbox import enqueue

    with transaction.atomic():
        order.save()
        enqueue("mail", {"to": order.mail}, key=f"order-{order.pk}")

A rollback takes the job along. After the commit a sender (`manage.py send_jobs`, or `send_due`)
makes exactly one job of each row on the server, whoever dies meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from django.db import router, transaction

from ..sdk import _MAX_BODY_BYTES, Submission, _job_body, _json
from .conf import options

if TYPE_CHECKING:
    from ..sdk import Client

__all__ = ["enqueue", "enqueue_many", "send_due"]


def enqueue(
    type: str,  # noqa: A002 - the name on the wire
    context: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Write a job into the outbox. `fields` are those of `Submission`: `key`, `unique`, `run_at`,
    `delay`, `priority` …; a delay counts from now.

    ValueError for a time without zone and for more than 256 KB, TypeError for what is no JSON. What
    the server refuses later, such as an unknown type, stays in the outbox with the reason.
    """
    enqueue_many([Submission(type, context, **fields)])


def enqueue_many(jobs: Sequence[Submission | Mapping[str, Any]]) -> None:
    """As `enqueue`, for many; each as in `Client.submit_many`."""
    # Models may be imported only after all apps are, and the list of apps names this package.
    from .models import OutgoingJob
    from .nudge import nudge

    using = router.db_for_write(OutgoingJob)
    rows = [OutgoingJob(**_columns(_job_body(job))) for job in jobs]
    OutgoingJob.objects.using(using).bulk_create(rows, batch_size=500)
    if rows and options().nudge:
        transaction.on_commit(nudge, using=using)


def send_due(client: Client | None = None) -> int:
    """Send all that waits, and return how many jobs that were; for a scheduler of yours.

    `client` is another one than that of the settings, such as `FakeClient()` in tests. Raises
    `sdk.PlatformError` when the server cannot be reached or refuses the key; all is kept. Not
    within a transaction: what is being sent must be on record before (RuntimeError).
    """
    from .sending import Sender

    return Sender(client).send_due()


def _columns(body: dict[str, Any]) -> dict[str, Any]:
    delay = body.pop("delay", None)
    if delay is not None:
        # The server would count it from when it hears of the job.
        now = datetime.now(timezone.utc)  # noqa: UP017 - Python 3.9
        body["run_at"] = (now + timedelta(seconds=delay)).isoformat()
    text = _json(body).decode()
    if len(text) > _MAX_BODY_BYTES:
        raise ValueError(
            f"A job of type {body['type']} has {len(text)} bytes; at most {_MAX_BODY_BYTES} are "
            "taken. Keep what is large elsewhere and name it in the context."
        )
    # Columns to find rows by; what is too long the server refuses.
    return {"type": body["type"][:255], "key": body.get("key", "")[:255], "body": text}
