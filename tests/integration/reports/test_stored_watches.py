"""What is stored and cannot be used any more is warned of, and how much a watch says at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.core.checks.registry import registry

from apps.common.messages import Message
from apps.dispatch.models import RotateTask, Template
from apps.jobs.models import JobType
from apps.reports.services import fact_sheet
from apps.reports.watches import jobs, stored
from apps.reports.watches.base import MAX_FOUND, Reading, Watch, look
from apps.reports.watches.subjects import JOB_TYPE, WORKER
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.both]

DAY = timedelta(days=1)


def test_what_is_stored_is_warned_of_by_watches_alone() -> None:
    """Of the boxes `manage.py check` says what stops them, such as handlers that are not there."""
    asked = [each for each in registry.get_checks() if Tags.database in getattr(each, "tags", ())]
    ours = {each.__module__ for each in asked if each.__module__.startswith("apps.")}
    of_boxes = {"apps.reports.checks", "apps.jobs.handlers.checks", "apps.asyncflow.checks"}
    assert ours == {*of_boxes, "apps.common.checks"}


def test_check_warns_of_what_was_stored_and_cannot_be_used_any_more(
    settings: Any, subtests: pytest.Subtests
) -> None:
    def warned() -> dict[str, str]:
        # Each `manage.py check` is a process of its own.
        stored.kept.forget()
        found = run_checks(databases=["default"])
        return {
            str(each.id): f"{each.msg} {each.hint}" for each in reversed(found) if each.id in keys
        }

    keys = {each.key for each in stored.STORED}
    factories.job_type("mail", retention_days=30)
    factories.template("photo")
    assert warned() == {}
    # A pattern that the language of an earlier release had.
    schema = {"properties": {"code": {"type": "string", "pattern": r"\Qa.b\E"}}}
    why = "The schema itself does not work and must be saved anew: schema.properties.code.pattern"
    JobType.objects.update(name="../mail", params_schema=schema)
    Template.objects.update(name="photo/check", schema=schema)
    settings.JOB_ARCHIVE_AFTER = 31 * DAY
    # What somebody has written by SQL.
    factories.rotation(factories.user())
    RotateTask.objects.update(rule="daily")
    JobType.objects.update(stages=[5])

    texts = warned()

    for key, begins, hint in (
        ("jobs.W001", "The job type ../mail cannot be addressed", "Make a type of another name"),
        ("jobs.W002", "Jobs of type ../mail cannot be kept for 30 days.", "JOB_ARCHIVE_AFTER"),
        (
            "jobs.W003",
            f"No context fits the job type ../mail, so nobody can submit to it. {why}",
            "Mend",
        ),
        (
            "dispatch.W001",
            "The template photo/check cannot be addressed",
            "Make a template of another",
        ),
        (
            "stored.W001",
            "The rule of Check the till cannot be read. 'daily' names no kind",
            "Open its page",
        ),
        ("dispatch.W002", f"No params fit the template photo/check v1. {why}", "Save the template"),
    ):
        with subtests.test(key):
            assert texts[key].startswith(begins)
            assert hint in texts[key]
    assert texts.keys() == keys
    Template.objects.update(status=Template.Status.RETIRED)
    assert warned().keys() == keys - {"dispatch.W002"}


def test_only_types_that_resume_are_told_as_paused() -> None:
    """Of one that waits until its settings can be read, *Resume* would change nothing."""
    factories.job_type("mail", paused=True)
    factories.job_type("odd")
    JobType.objects.filter(name="odd").update(stages=[5])
    assert [each.name for each in look(jobs.PAUSED, fact_sheet.read()).findings] == ["mail"]


def test_many_of_one_kind_leave_room_for_those_of_another() -> None:
    """A rack of lost workers hides no type that nobody serves any more."""
    lost = [Reading(WORKER, f"w{n}", text="is lost") for n in range(MAX_FOUND + 10)]
    unserved = Reading(JOB_TYPE, "mail", text="has no worker")
    many = Watch(key="many", title=Message("all"), read=lambda _sheet: [*lost, unserved])
    said = look(many, fact_sheet.read()).findings
    assert len(said) == MAX_FOUND + 1
    assert said[-1].name == "mail"
