"""The platform as the database user of its docs, who cannot change or delete the journal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import MySQLdb
import pytest
from django.db import OperationalError, connection

from apps.access import services as access
from apps.common.sweeps import tidy_up
from apps.dispatch.sweeps import expire, purge
from apps.dispatch.sweeps import roll as roll_dispatches
from apps.jobs.services import control
from apps.jobs.sweeps import archive_ended, discard_exhausted, forget, reorder_waiting
from apps.jobs.sweeps import roll as roll_archive
from apps.journal.models import JournalEntry
from apps.journal.sweeps import roll
from apps.reports.sweeps import roll_up
from tests import factories
from tests.clients import JsonClient
from tests.frozen import FrozenClock
from tests.history import ended
from tests.jobs import end, rescue, take

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]
README = Path(__file__).parents[2] / "taskplatform/docs/deployment.md"
HOST = "127.0.0.1"
PASSWORD = "not-the-owners-1"


@pytest.fixture
def runner() -> Iterator[None]:
    """The connection is that of a user with the grants of the README."""
    own = connection.settings_dict
    name, owner = own["NAME"], {key: own[key] for key in ("USER", "PASSWORD")}
    query = re.search(r"SELECT CONCAT.*?;\n", README.read_text(), re.S)
    assert query is not None
    statement = query[0].replace("taskplatform", name).replace("10.0.0.%", HOST)
    root = MySQLdb.connect(host=HOST, port=int(own["PORT"]), user="admin", password=own["PASSWORD"])
    cursor = root.cursor()
    cursor.execute(f"DROP USER IF EXISTS tasks_run@'{HOST}'")
    cursor.execute(f"CREATE USER tasks_run@'{HOST}' IDENTIFIED BY '{PASSWORD}'")
    cursor.execute(statement)
    for (grant,) in cursor.fetchall():
        cursor.execute(grant)
    connection.close()
    own |= {"USER": "tasks_run", "PASSWORD": PASSWORD}
    try:
        yield
    finally:
        connection.close()
        own |= owner
        cursor.execute(f"DROP USER tasks_run@'{HOST}'")
        root.close()


def test_journal_is_only_read_and_appended_to(runner: None) -> None:
    factories.user("uid_ann")
    entries = JournalEntry.objects.filter(pk=JournalEntry.objects.latest("id").pk)

    for forbidden in (entries.delete, lambda: entries.update(actor="nobody")):
        with pytest.raises(OperationalError, match="denied"):
            forbidden()
    assert entries.get().actor == factories.OPERATOR


@pytest.mark.parametrize("sweep", [roll, roll_archive, roll_dispatches])
def test_platform_says_who_has_to_roll_its_tables(
    runner: None, caplog: pytest.LogCaptureFixture, frozen_clock: FrozenClock, sweep: Any
) -> None:
    # Whatever other tests have cut ahead.
    frozen_clock.advance(days=4_000)

    assert sweep() == 0
    assert "manage.py roll_tables" in caplog.text


def test_platform_does_its_work_as_this_user(runner: None, frozen_clock: Any) -> None:
    """Pull, callback, jobs and every sweep."""
    factories.once_task(factories.user("uid_ann"))
    _, key = access.create_client(name="Phone", scopes=["pull", "submit"], actor="test")
    phone = JsonClient(key)
    pulled = phone.post("/api/v1/dispatch/", {"uid": "uid_ann"}).json()
    done = {"uid": "uid_ann", "number": pulled["number"], "outcome": "succeeded"}
    assert phone.post("/api/v1/callback/", done).status_code == 200
    job = factories.job()
    [held] = take()
    assert end(held) == "succeeded"
    control.retry(job=job, actor="test", reason="Once more")
    take()
    frozen_clock.advance(days=2)
    rescue(frozen_clock)
    for sweep in (expire, purge, discard_exhausted, reorder_waiting, tidy_up, roll_up):
        sweep()
    ended(2)
    assert archive_ended() == 2
    frozen_clock.advance(days=433)
    assert forget() == 2
    assert JournalEntry.objects.filter(subject_id=job.pk).exists()
