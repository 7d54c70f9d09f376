"""The database connections of Celery's threads: kept between sweeps, and replaced when broken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery import signals
from celery.fixups.django import DjangoWorkerFixup
from django.db import connection, connections

from apps.common.db import fetch
from apps.jobs.sweeps import scan
from taskplatform.celery import app

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def sweep() -> Any:
    """What a Celery task does in a thread of a worker; the connection that it used."""
    fixup = DjangoWorkerFixup(app)
    fixup.on_task_prerun(scan)
    signals.task_prerun.send(sender=scan)
    fetch("SELECT 1")
    used = connection.connection
    fixup.on_task_postrun(scan)
    return used


def test_sweeps_of_one_thread_share_a_connection_until_it_breaks() -> None:
    """To open one, and to read the tables of SQLite into it, takes longer than most sweeps."""
    with ThreadPoolExecutor(1) as thread:
        first, second = (thread.submit(sweep).result() for _ in range(2))
        assert first is second

        if connection.vendor == "mysql":
            fetch("KILL %s", [first.thread_id()])
            assert thread.submit(sweep).result() is not first
        thread.submit(connections.close_all).result()
