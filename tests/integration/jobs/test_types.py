"""Job types: making, changing, pausing, deleting; what each leaves in the journal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management.sql import emit_post_migrate_signal
from django.db.migrations import Migration
from django.test import Client

from apps.common import clock
from apps.common.errors import Conflict, Invalid
from apps.jobs.handlers import handler
from apps.jobs.handlers.checks import check_settings
from apps.jobs.models import JobType, TypeState
from apps.jobs.rules.type_settings import FRACTIONS, OPEN, SETTINGS
from apps.jobs.rules.type_snapshot import RANGES
from apps.jobs.services import types
from apps.jobs.services.type_snapshots import forget_type_snapshots, type_snapshots
from apps.journal.models import JournalEntry
from tests import factories
from tests.statements import sent_by

pytestmark = pytest.mark.django_db
ACTOR = "admin:olga"


@pytest.fixture(autouse=True)
def at_nine(frozen_clock: Any) -> Any:
    return frozen_clock


def events() -> list[str]:
    entries = JournalEntry.objects.filter(source="plan", type_or_task="mail").order_by("id")
    return [entry.event for entry in entries]


def wrong_fields(**settings: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        types.create_type(name="mail", actor=ACTOR, **settings)
    assert not JobType.objects.exists()
    return [error.field for error in caught.value.errors]


def test_every_column_an_operator_decides_is_a_setting() -> None:
    """S2.2"""
    machine = {"id", "name", "version", "created_at", "created_by", "updated_at", "updated_by"}
    machine |= {"paused_at", "paused_by"}
    assert {field.name for field in JobType._meta.concrete_fields} == machine | set(SETTINGS)


@pytest.mark.both
def test_every_number_has_its_limits(settings: Any, subtests: pytest.Subtests) -> None:
    """I59: both edges are taken and stored, what lies beyond is refused."""
    settings.JOB_ARCHIVE_AFTER, settings.JOB_RETENTION = timedelta(hours=1), timedelta(0)
    for name, (low, high) in RANGES.items():
        # A number of a limit by key goes with what it limits by.
        needed = {"limit_by": "key", "limit_per_minute": 5} if name.startswith("limit_") else {}
        with subtests.test(name=name):
            for position, value in enumerate((low, high)):
                given = {**needed, name: value}
                job_type = types.create_type(name=f"t{position}", actor=ACTOR, **given)
                assert getattr(JobType.objects.get(pk=job_type.pk), name) == value
            JobType.objects.all().delete()
            step = 0.001 if name in FRACTIONS else 1
            wrong = [low - step, high + step, 2**63, 10**30, "5", [1], float("nan"), float("inf")]
            wrong += [] if name in OPEN else [None]
            wrong += [] if name in FRACTIONS else [low + 0.5]
            for value in wrong:
                assert wrong_fields(**{**needed, name: value}) == [name], value


WRONG: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"title": "x" * 201}, ["title"]),
    ({"title": "\x00"}, ["title"]),
    ({"handler": "a b"}, ["handler"]),
    ({"handler": "mial"}, ["handler"]),
    ({"lane": "side"}, ["lane"]),
    ({"stages": "draw"}, ["stages"]),
    ({"stages": ["draw", "a b", "draw"]}, ["stages[1]", "stages[2]"]),
    ({"allowed_hosts": [f"h{n}" for n in range(101)]}, ["allowed_hosts"]),
    ({"params_schema": {"type": "array"}}, ["params_schema"]),
    ({"params_schema": {"type": "object", "$ref": "http://x"}}, ["params_schema"]),
    ({"paused": "yes"}, ["paused"]),
    ({"batch_limit": True}, ["batch_limit"]),
    ({"paused_until": clock}, ["paused_until"]),
    ({"color": "red"}, ["color"]),
    ({"weight": 0, "lane": "x", "retry_jitter": 2}, ["lane", "weight", "retry_jitter"]),
)


def test_wrong_settings_are_all_named(subtests: pytest.Subtests) -> None:
    for settings, fields in WRONG:
        with subtests.test(settings=settings):
            assert wrong_fields(**settings) == fields


def test_handler_is_one_that_somebody_wrote() -> None:
    """With another, every worker would refuse to start."""
    made = types.create_type(name="mail", actor=ACTOR, handler="echo")
    with pytest.raises(Invalid, match=r"There is no handler 'mial' here.* name one of: .*echo, "):
        types.update_type(job_type=made, changes={"handler": "mial"}, actor=ACTOR)
    assert JobType.objects.get().handler == "echo"

    JobType.objects.update(handler="removed")
    types.update_type(job_type=made, changes={"weight": 2}, actor=ACTOR, reason="More")
    assert (JobType.objects.get().handler, JobType.objects.get().weight) == ("removed", 2)
    entry = JournalEntry.objects.get(event="type_changed")
    assert (entry.subject_id, entry.reason) == (made.pk, "More")


def test_true_is_another_word_of_a_schema_than_1() -> None:
    one, true = ({"type": "object", "properties": {"n": {"const": n}}} for n in (1, True))
    mail = factories.job_type("mail", params_schema=one)
    types.update_type(job_type=mail, changes={"params_schema": true}, actor=ACTOR)
    assert JobType.objects.get().params_schema["properties"]["n"]["const"] is True


def test_pause_needs_a_reason_and_a_coming_end() -> None:
    mail = factories.job_type("mail")
    for reason, said in (("", "Say why"), ("x", "is past")):
        with pytest.raises(Invalid, match=said):
            types.pause_type(job_type=mail, reason=reason, actor=ACTOR, until=clock.now())
    assert not JobType.objects.get().paused


def test_delete_only_without_jobs() -> None:
    """S2.2: finished ones count."""
    job = factories.job("mail", into={"status": "succeeded"})
    mail = types.find("mail")
    with pytest.raises(Conflict, match="There are jobs of type mail"):
        types.delete_type(job_type=mail, actor=ACTOR)
    job.delete()
    TypeState.objects.create(type="mail")
    types.delete_type(job_type=mail, actor=ACTOR)
    assert not JobType.objects.exists()
    assert not TypeState.objects.exists()
    assert events()[-1] == "type_deleted"


def test_types_are_made_anew_only_when_their_rows_have_changed() -> None:
    """Each process reads them every second; by whom one was changed makes no difference."""
    mail = factories.job_type("mail", stages=["print", "send"], breaker_enabled=True)
    until = clock.now() + timedelta(hours=1)
    types.pause_type(job_type=mail, actor=ACTOR, reason="Strike", until=until)
    factories.job_type("fax", pool=True, params_schema={"type": "object"})
    forget_type_snapshots()
    known = type_snapshots()

    assert known == {row.name: row.snapshot for row in JobType.objects.all()}
    assert len(sent_by(lambda: type_snapshots(max_age=0))) == 1
    assert type_snapshots(max_age=0)["mail"] is known["mail"]

    JobType.objects.filter(name="mail").update(weight=7)
    assert type_snapshots(max_age=0)["mail"].weight == 7
    JobType.objects.filter(name="fax").delete()
    assert [*type_snapshots(max_age=0)] == ["mail"]


def test_migrate_makes_the_types_of_all_handlers_and_keeps_those_there_are(
    handle: Callable[..., Any],
) -> None:
    """So a web process that is deployed before any worker takes their jobs."""
    handle("mail", lambda context: None, weight=7)
    handler("film", weight=3)(lambda context: None)
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
    made = dict(JobType.objects.values_list("name", "weight"))
    assert (made["mail"], made["film"], "bulk" in made) == (7, 3, True)

    JobType.objects.all().delete()
    plan = [(Migration("0001_initial", "jobs"), True)]
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default", plan=plan)
    assert not JobType.objects.exists()


def test_where_code_and_table_differ_is_said_and_can_be_taken(
    handle: Callable[..., Any], admin_client: Client
) -> None:
    handler("film", max_attempts=5, lane="slow", stages=["cut"])(lambda context: None)
    handle("mail", lambda context: None)
    handler("other", max_attempts=5)(lambda context: None)
    types.ensure_types(["film"], {"film": {"max_attempts": 5, "lane": "slow", "stages": ["cut"]}})
    film = JobType.objects.get(name="film")
    url = f"/admin/jobs/jobtype/{film.pk}/change/"
    assert check_settings(databases=["default"]) == []
    assert "Take those of the code" not in admin_client.get(url).content.decode()
    types.update_type(job_type=film, changes={"max_attempts": 9, "weight": 4}, actor=ACTOR)

    [note] = check_settings(databases=["default"])
    assert "film has other settings than its handler: max_attempts 9, in the code 5." in note.msg
    page = admin_client.get(url).content.decode()
    assert "Take those of the code" in page and "here 9, in the code 5" in page
    data = {"ids": str(film.pk), "reason": "as deployed"}
    admin_client.post("/admin/jobs/jobtype/act/take_code/", data)
    film.refresh_from_db()
    assert (film.max_attempts, film.weight, check_settings(databases=["default"])) == (5, 4, [])
