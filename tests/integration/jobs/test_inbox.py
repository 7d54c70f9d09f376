"""The inbox: rows that other programs insert become jobs, each exactly one."""

from __future__ import annotations

import json
import re
import threading
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from apps.common import clock
from apps.common.db import written
from apps.common.errors import Conflict, Invalid, NotFound, TooLarge
from apps.jobs.models import InboxRow, Job
from apps.jobs.runner.scan import scan
from apps.jobs.services import inbox
from apps.jobs.services.submit import submit
from apps.journal.models import JournalEntry
from tests import factories
from tests.kills import kills
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def mail() -> Any:
    return factories.job_type("mail")


def insert(**values: Any) -> int:
    """As another program writes it: only columns that it names."""
    names = ", ".join(values)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_inbox ({names}) VALUES ({', '.join(['%s'] * len(values))})",
            list(values.values()),
        )
        return int(cursor.lastrowid)


def refusal_of(number: int) -> str:
    row = InboxRow.objects.get(pk=number)
    assert row.refused_at is not None
    return str(row.error)


def test_a_row_becomes_the_job_that_it_says_and_goes() -> None:
    assert not inbox.has_waiting()
    at = clock.now() + timedelta(hours=1)
    insert(type="mail")
    insert(type="mail", job_key=None, context=None, priority=None, user_id=None, unique_job=None)
    insert(
        type="mail",
        job_key="order-7",
        context='{"to": "𠮷😀", "n": 9007199254740993}',
        run_at=written(at),
        priority=5,
        user_id="uid_ann",
        unique_job=True,
    )
    assert inbox.has_waiting()
    assert inbox.move(seconds=10) == 3
    assert not InboxRow.objects.exists()
    plain, nulls, full = Job.objects.order_by("id")
    for job in (plain, nulls):
        assert (job.type, job.key, job.context, job.priority) == ("mail", "", {}, 0)
        assert (job.status, job.user_id, job.is_unique) == ("ready", "", False)
    assert (full.key, full.context) == ("order-7", {"to": "𠮷😀", "n": 9007199254740993})
    assert (full.status, full.run_at, full.priority) == ("scheduled", at, 5)
    assert (full.user_id, full.unique_key, full.submitted_by) == (
        "uid_ann",
        "mail|order-7",
        "inbox",
    )


def test_the_time_of_writing_is_utc_and_of_the_database() -> None:
    before = clock.now() - timedelta(seconds=1)
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+08:00'")
    row = InboxRow.objects.get(pk=insert(type="mail"))
    assert before <= row.created_at <= clock.now() + timedelta(seconds=1)


def test_a_row_that_is_wrong_stays_with_what_is_wrong(subtests: pytest.Subtests) -> None:
    factories.job_type(
        "strict", params_schema={"type": "object", "required": ["to"], "properties": {"to": {}}}
    )
    factories.job_type("bulk")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"type": "mall"}, "type: There is no job type 'mall'; did you mean mail?"),
        ({"type": ""}, "type: There is no job type ''; known are: mail, strict."),
        ({"type": "bulk"}, "type: The platform itself submits the jobs of 'bulk'"),
        ({"type": "strict"}, "context.to: "),
        ({"context": "{"}, "The context is not JSON from line 1, column 2 on."),
        ({"context": "[1]"}, "The context is an array; send a JSON object: {…}."),
        ({"context": '{"a": 1, "a": 2}'}, "The key 'a' occurs twice"),
        ({"context": '{"a": NaN}'}, "NaN is not a JSON number"),
        ({"context": '{"a": "\\u0000"}'}, "NUL characters"),
        ({"context": '{"a":' * 5000 + "1" + "}" * 5000}, "The context is nested 5000 levels deep"),
        ({"context": json.dumps({"a": "x" * 262_145})}, "context: 262153 bytes of JSON"),
        ({"context": " " * (inbox.MAX_TEXT + 1)}, f"context: A text of {inbox.MAX_TEXT + 1} bytes"),
        ({"job_key": "two words"}, "job_key: 'two words' is no key"),
        ({"job_key": "k" * 129}, "job_key: 'kkk"),
        ({"unique_job": True}, "job_key: A unique job needs a key"),
        ({"user_id": "Ann Lee"}, "user_id: 'Ann Lee' is no user_id"),
        ({"priority": 1_000_000}, "priority: 1000000 is no priority"),
        ({"run_at": "2199-01-01 00:00:00"}, "run_at: "),
    ]
    if connection.vendor == "sqlite":
        # MariaDB and MySQL refuse such values at the INSERT.
        cases += [
            ({"run_at": "soon"}, "run_at: soon is not a time"),
            ({"run_at": "2026-13-41 09:30:00"}, "run_at: 2026-13-41 09:30:00 is not a time"),
            ({"priority": "high"}, "priority: high is no priority"),
            ({"type": b"\xff\x00"}, "type: \ufffd\x00 is not text in UTF-8."),
            ({"unique_job": "yes"}, "unique_job: yes is neither 0 nor 1."),
            ({"context": '{"a": 1}\0' + " " * inbox.MAX_TEXT}, "context: A text of"),
        ]
    numbers = [insert(**{"type": "mail", **values}) for values, _said in cases]
    right = insert(type="mail", job_key="right")
    inbox.move(seconds=10)
    assert Job.objects.get().key == "right" and not InboxRow.objects.filter(pk=right).exists()
    for number, (values, said) in zip(numbers, cases, strict=True):
        with subtests.test(said=said):
            assert refusal_of(number).startswith(said)
            kept = InboxRow.objects.get(pk=number)
            assert (kept.context, kept.job_key) == (
                values.get("context", "{}"),
                values.get("job_key", ""),
            )
    assert not inbox.has_waiting()


def test_text_that_is_not_utf_8_stops_no_other_row(subtests: pytest.Subtests) -> None:
    if connection.vendor != "sqlite":
        with pytest.raises(DatabaseError), transaction.atomic():
            insert(type="mail", context=b'{"n":"\xfc"}')
        return
    columns = ("type", "job_key", "context", "run_at", "priority", "user_id", "unique_job")
    latin = "CAST(x'7b226e223a22fc227d' AS TEXT)"
    for column in columns:
        values = {"type": "'mail'", column: latin}
        with connection.cursor() as cursor:
            names, texts = ", ".join(values), ", ".join(values.values())
            cursor.execute(f"INSERT INTO jobs_inbox ({names}) VALUES ({texts})")
    insert(type="mail", context=b'{"n":"\xfc"}')
    insert(type="mail", job_key="k" * 100_000)
    insert(type="mail", context=b"\xfc" * (inbox.MAX_TEXT + 1))
    insert(type="mail", job_key="right")
    assert inbox.move(seconds=10) == len(columns) + 4
    assert Job.objects.get().key == "right"
    *rows, as_bytes, long, large = InboxRow.objects.order_by("id")
    for row, column in zip(rows, columns, strict=True):
        with subtests.test(column=column):
            assert row.error == f'{column}: {{"n":"\ufffd"}} is not text in UTF-8.'
            shown = {"run_at": None, "unique_job": False}.get(column, '{"n":"\ufffd"}')
            assert getattr(row, column) == shown
    assert as_bytes.error == 'context: {"n":"\ufffd"} is not text in UTF-8.'
    assert long.job_key == "k" * 255
    assert large.context == "\ufffd" * (inbox.MAX_TEXT + 1)


def test_text_that_a_driver_bound_as_bytes_is_kept_as_text(subtests: pytest.Subtests) -> None:
    columns = ("type", "job_key", "context", "user_id")
    for column in columns:
        insert(**{"type": "nobody", column: "[雷]".encode()})
    assert inbox.move(seconds=10) == len(columns)
    rows = InboxRow.objects.order_by("id")
    for row, column in zip(rows, columns, strict=True):
        with subtests.test(column=column):
            assert getattr(row, column) == "[雷]"


def test_unique_rows_keep_one_open_twin() -> None:
    first = submit("mail", key="a", unique=True).id
    for _each in range(2):
        insert(type="mail", job_key="a", unique_job=1)
        insert(type="mail", job_key="b", unique_job=1)
    inbox.move(seconds=10)
    assert not InboxRow.objects.exists()
    assert sorted(Job.objects.values_list("key", flat=True)) == ["a", "b"]
    assert Job.objects.get(key="a").pk == first


def test_statements_do_not_grow_with_rows_and_blocks_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def statements(count: int) -> int:
        for _each in range(count):
            insert(type="mail", context='{"a": 1}')
        return len(sent_by(lambda: inbox.move(seconds=10)))

    statements(1)  # reads the types
    assert statements(2) == statements(40)
    monkeypatch.setattr(inbox, "_READ_AT_ONCE", 100)
    monkeypatch.setattr(inbox, "BLOCK", 7)
    statements(30)
    assert Job.objects.count() == 73


def test_a_scan_starts_the_sweep_only_where_rows_wait(sent_sweeps: list[str]) -> None:
    scan()
    assert inbox.SWEEP not in sent_sweeps
    number = insert(type="nothing")
    scan()
    assert sent_sweeps.count(inbox.SWEEP) == 1
    inbox.move(seconds=10)
    refusal_of(number)
    scan()
    assert sent_sweeps.count(inbox.SWEEP) == 1


def test_a_person_corrects_a_refused_row_or_discards_it() -> None:
    number = insert(type="mall", context='{"to": "ann"}')
    inbox.move(seconds=10)
    row = InboxRow.objects.get(pk=number)

    def correct(changes: dict[str, Any], version: int | None = None) -> None:
        inbox.correct(row=row, version=version, changes=changes, actor="admin:1", reason="typo")

    with pytest.raises(Invalid, match="There is no job type 'mill'"):
        correct({"type": "mill"})
    with pytest.raises(Conflict):
        correct({"type": "mail"}, version=row.version + 1)
    correct({"type": "mail"}, version=row.version)
    assert inbox.has_waiting()
    inbox.move(seconds=10)
    assert Job.objects.get().context == {"to": "ann"}
    with pytest.raises(NotFound):
        correct({"type": "mail"})

    other = InboxRow.objects.get(pk=insert(type="mall", job_key="lost"))
    inbox.discard(row=other, actor="admin:1", reason="a test")
    assert not InboxRow.objects.exists() and Job.objects.count() == 1
    corrected, discarded = JournalEntry.objects.filter(event__startswith="inbox_").order_by("id")
    assert (corrected.data["before"], corrected.data["after"]) == (
        {"type": "mall"},
        {"type": "mail"},
    )
    assert (discarded.reason, discarded.data["before"]["job_key"]) == ("a test", "lost")
    with pytest.raises(NotFound):
        inbox.discard(row=other, actor="admin:1", reason="again")


def test_of_a_context_that_no_statement_of_the_journal_holds_its_beginning_is_kept() -> None:
    # 4 MB, and 24 MB as JSON.
    row = InboxRow.objects.get(pk=insert(type="mail", context="\1" * 4_000_000))
    inbox.move(seconds=10)
    assert refusal_of(row.pk) == f"context: A text of 4000000 bytes; the limit is {inbox.MAX_TEXT}."
    with pytest.raises(TooLarge, match="A text of 4000000 bytes"):
        inbox.require_right(row)
    inbox.discard(row=row, actor="admin:1", reason="")
    before = JournalEntry.objects.get(event="inbox_discarded").data["before"]
    assert before["context"].startswith("\1") and len(before["context"]) < 10_000


def test_contexts_of_many_megabytes_are_kept_and_not_read_together() -> None:
    size = 4 * inbox.MAX_TEXT
    rows = [insert(type="mail", context=letter * size) for letter in "abcde"]
    insert(type="mail", job_key="right")
    inbox.has_waiting()
    tracemalloc.start()
    try:
        inbox.move(seconds=10)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # SQLite, where any bytes may be text, reads one and decodes it.
    assert peak < (4 * size if connection.vendor == "sqlite" else size)
    assert Job.objects.get().key == "right"
    for number, letter in zip(rows, "abcde", strict=True):
        assert refusal_of(number).startswith(f"context: A text of {size} bytes")
        assert InboxRow.objects.get(pk=number).context == letter * size


def test_a_rollback_of_the_writer_leaves_no_job() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        insert(type="mail")
        raise ZeroDivisionError
    assert inbox.move(seconds=10) == 0 and not Job.objects.exists()


def test_the_statement_of_the_readme_makes_the_job_that_it_says() -> None:
    factories.job_type("receipt")
    text = (settings.BASE_DIR / "apps/jobs/README.md").read_text()
    [statement] = re.findall(r"INSERT INTO taskplatform\.(jobs_inbox .*);", text)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {statement}")
    inbox.move(seconds=10)
    job = Job.objects.get()
    assert (job.type, job.key, job.context) == ("receipt", "order-7", {"order": 7})


# --- with others beside -------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_a_kill_at_any_statement_leaves_one_job_per_row() -> None:
    number = insert(type="mall")
    for key in range(3):
        insert(type="mail", job_key=f"k{key}")
    for _killed in kills(lambda: inbox.move(seconds=10), more_than=4):
        waiting = set(InboxRow.objects.filter(refused_at=None).values_list("job_key", flat=True))
        made = list(Job.objects.values_list("key", flat=True))
        assert sorted([*made, *(waiting - {""})]) == ["k0", "k1", "k2"]
    assert Job.objects.count() == 3 and refusal_of(number)


@pytest.mark.django_db(transaction=True)
def test_open_transactions_of_writers_are_neither_waited_for_nor_kept_waiting(
    racers: Any,
) -> None:
    """Each writer commits in the middle of moves; movers may be several."""
    if connection.vendor == "sqlite":
        # One writer at a time: the mover finds all or nothing of a transaction.
        insert(type="mail")
        assert inbox.move(seconds=10) == 1
        return
    inside, moved = threading.Event(), threading.Event()

    def writer() -> None:
        with transaction.atomic():
            insert(type="mail", job_key="open")
            inside.set()
            assert moved.wait(20)

    def mover() -> int:
        assert inside.wait(20)
        insert(type="mail", job_key="done")
        found = inbox.move(seconds=10)
        moved.set()
        return found

    race = racers([writer, mover])
    assert race.results[1] == 1
    assert [job.key for job in Job.objects.all()] == ["done"]
    for _each in range(300):
        insert(type="mail")
    shares = racers([lambda: inbox.move(seconds=10)] * 4).results
    assert sum(shares) == 301 and Job.objects.count() == 302
