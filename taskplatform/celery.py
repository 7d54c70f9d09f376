"""The Celery application: it starts sweeps and drains; the tables are the queue."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from celery import Celery, signals

# A worker of one's own machine may run as root; what its messages hold is never unpickled.
warnings.filterwarnings("ignore", r"\s*You're running the worker with superuser privileges")

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
# Celery would have Django check itself, which loads the code of all pages, and drop what is found:
# 10 MB of each worker.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("taskplatform")
app.config_from_object("django.conf:settings", namespace="CELERY")
# "Task" has another meaning here, so Celery tasks live in sweeps.py.
app.autodiscover_tasks(related_name="sweeps")
app.steps["worker"].add("taskplatform.clockwork:EndWithBeat")


@signals.after_setup_logger.connect
def _keep_logs_of_jobs(logger: logging.Logger, loglevel: int, **_kwargs: object) -> None:
    """Leave the logs of jobs all from INFO on: the level of the worker is for its own."""
    for handler in logger.handlers:
        if handler.get_name() != "job":
            handler.setLevel(loglevel)
    logger.setLevel(min(loglevel, logging.INFO))


@signals.task_prerun.connect
def _check_connections(**_kwargs: object) -> None:
    """Close broken connections of the thread, as Django does before a request; keep the others."""
    from django.db import close_old_connections

    close_old_connections()


@signals.celeryd_after_setup.connect
def _read_own_queues(instance: Any, **_kwargs: object) -> None:
    """Have a worker for sweeps read the queues of all that it knows: its command names one."""
    from taskplatform.beat import queues

    known = instance.app.amqp.queues
    known.select(queues(known.consume_from, instance.app.tasks))


@app.on_after_configure.connect
def _set_beat(sender: Celery, **_kwargs: object) -> None:
    from taskplatform.beat import schedule

    sender.conf.beat_schedule = schedule()
