"""The outbox of projects that are not ours, against the real API: one job for each row."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskplatform import sdk
from taskplatform.bootstrap import pip
from tests import newest
from tests.acceptance.conftest import Template
from tests.databases import empty_database
from tests.processes import ROOT, eventually
from tests.serving import Web
from tests.stranger import PACKAGE, Stranger, guide
from tests.workers import rows

CASES = ROOT / "tests" / "stranger" / "cases.py"
WAITING = "SELECT COUNT(*) FROM taskplatform_outbox_outgoingjob"
# Each round has jobs of its own; `kills` is a copy of tests/kills.py.
DIES = """
import os, signal
from itertools import count
from django.utils import timezone
from kills import killed_at, kills
from taskplatform_client.outbox import enqueue, send_due
from taskplatform_client.outbox.models import OutgoingJob
from taskplatform_client.sdk import Client

numbers = count()

def begin():
    number = next(numbers)
    enqueue("mail", {"number": number}, key=f"died-a{number}")
    enqueue("mail", {"number": number}, key=f"died-b{number}")

def go_on():
    left = OutgoingJob.objects.filter(request_id__gt="")
    print(left.count(), end=" ")
    # The time of the one that died is over.
    left.update(claimed_until=timezone.now())
    send_due()
    assert not OutgoingJob.objects.exists()
    begin()

def die_at_the_door():
    Client.submit_many = lambda *args, **more: os.kill(os.getpid(), signal.SIGKILL)
    send_due()

begin()
assert killed_at(10**6, die_at_the_door)
go_on()
for _ in kills(send_due, more_than=6, every=True):
    go_on()
"""


@pytest.fixture(scope="module")
def key(keyed_database: Template) -> str:
    return keyed_database.key


@pytest.fixture(scope="module")
def web(shared_web: Web) -> Web:
    return shared_web


@pytest.fixture(scope="module")
def client(web: Web, key: str) -> Iterator[sdk.Client]:
    with sdk.Client(web.url, key) as made:
        made._call("/job-types/", {"name": "mail"}, bool)
        yield made


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with empty_database(tmp_path_factory.mktemp("database")) as url:
        yield url


@pytest.fixture(scope="module")
def shop(
    web: Web,
    key: str,
    database: str,
    client: sdk.Client,
    tmp_path_factory: pytest.TempPathFactory,
) -> Stranger:
    return Stranger(tmp_path_factory.mktemp("stranger"), web.url, key, database)


def keys_of(client: sdk.Client, start: str) -> Counter[str]:
    """How many jobs the server has of each key that starts so."""
    found: Counter[str] = Counter()
    path = "/jobs/?type=mail&limit=100"
    while path:
        answer = client._call(path, None, lambda answer: answer.body)
        found.update(row["key"] for row in answer["results"] if row["key"].startswith(start))
        path = (answer["next"] or "").removeprefix("/api/v1")
    return found


@pytest.mark.both
def test_sender_killed_at_any_statement_leaves_one_job_for_each_row(
    shop: Stranger, client: sdk.Client
) -> None:
    """Also between the request and the removal of its rows: those are sent again, and the server
    answers as at first."""
    left = shop.script(DIES).split()
    rounds = len(left) + 1
    # Before the request was on record, and after it.
    assert {"0", "2"} <= set(left)
    made = keys_of(client, "died")
    assert made == Counter(f"died-{row}{number}" for row in "ab" for number in range(rounds))


@pytest.mark.both
def test_two_senders_send_2500_jobs_once_each_although_the_server_was_away(
    shop: Stranger, client: sdk.Client, web: Web, tmp_path: Path
) -> None:
    many = "from taskplatform_client.outbox import enqueue_many as m; " + (
        "m([{'type': 'mail', 'key': f'away-{n}'} for n in range(%s, %s)])"
    )
    web.kill()
    shop.script(many % (0, 1200))
    senders = [shop.start(tmp_path / f"sender-{n}.log", "send_jobs") for n in range(2)]
    try:
        for sender in senders:
            sender.await_output("jobs wait in the outbox")
        web.begin()
        shop.script(many % (1200, 2500))
        eventually(lambda: sum(keys_of(client, "away").values()) >= 2500, pause=0.5)
        eventually(lambda: rows(shop.database, WAITING) == [(0,)])
    finally:
        for sender in senders:
            sender.process.send_signal(signal.SIGTERM)
        assert [sender.process.wait(60) for sender in senders] == [0, 0]

    assert keys_of(client, "away") == Counter(f"away-{number}" for number in range(2500))


def test_commit_nudges_and_refused_jobs_stay_with_their_reason(
    shop: Stranger, client: sdk.Client
) -> None:
    said = shop.script(
        "import time\n"
        "from django.db import transaction\n"
        "from taskplatform_client.outbox import enqueue\n"
        "from taskplatform_client.outbox.models import OutgoingJob\n"
        "with transaction.atomic():\n"
        "    enqueue('mail', key='nudge-1')\n"
        "    enqueue('mial', key='nudge-2')\n"
        "    time.sleep(0.5)\n"
        "    assert not OutgoingJob.objects.filter(request_id__gt='').exists()\n"
        "until = time.monotonic() + 60\n"
        "while OutgoingJob.objects.filter(refused_at=None).exists():\n"
        "    assert time.monotonic() < until\n"
        "    time.sleep(0.05)\n"
        "row = OutgoingJob.objects.get()\n"
        "print(row.error)\n"
        "row.delete()\n",
        TP_NUDGE="1",
    )
    assert "There is no job type 'mial'; did you mean mail?" in said
    assert keys_of(client, "nudge") == Counter({"nudge-1": 1})


def pass_its_tests(shop: Stranger) -> None:
    shop.put("shop/tests.py", CASES.read_text())
    assert "Ran 19 tests" in shop.manage("test")


def follow_the_guide(shop: Stranger) -> None:
    """Do what docs/outbox.md says, with its code."""
    files = guide()
    assert [*files] == ["shop/settings.py", "shop/orders.py", "shop/tests.py"]
    # A stranger has the settings of the guide from the beginning.
    del files["shop/settings.py"]
    for name, code in files.items():
        shop.put(name, code)
    shop.manage("check", "--fail-level", "WARNING")
    shop.manage("test")
    shop.script("from shop.orders import pay; pay(7, 'ann@example.com')")
    assert "1 job sent" in shop.manage("send_jobs", "--once")


def test_guide_works_as_it_stands(shop: Stranger, client: sdk.Client) -> None:
    before = keys_of(client, "order")
    follow_the_guide(shop)
    assert keys_of(client, "order") - before == Counter({"order-7": 1})


@pytest.mark.both
def test_stranger_has_nothing_of_the_platform_and_its_tests_pass(shop: Stranger) -> None:
    """See tests/stranger/cases.py."""
    found = shop.script("import importlib.util as u; print(u.find_spec('taskplatform'))")
    assert found.strip() == "None"
    pass_its_tests(shop)


@pytest.mark.long
@pytest.mark.parametrize("django", ["django>=4.2,<5", "django>=6,<7"])
def test_installed_package_works_on_other_versions_of_django(
    django: str, web: Web, key: str, database: str, client: sdk.Client, tmp_path: Path
) -> None:
    base = newest.newest()[1] if ">=6" in django else sys.executable
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([base, "-m", "venv", str(tmp_path / "venv")], check=True)
    # A copy, because a build leaves files beside what it builds.
    shutil.copytree(PACKAGE, tmp_path / "client")
    drivers = ["mysqlclient"] if database.startswith("mysql") else []
    pip([django, str(tmp_path / "client"), *drivers], python)

    shop = Stranger(tmp_path, web.url, key, database, python)

    pass_its_tests(shop)
    follow_the_guide(shop)
    made = shop.run(
        "-m", "taskplatform_client.command_line", "list", "--url", web.url, "--api-key", key
    )
    assert "order-7" in made
