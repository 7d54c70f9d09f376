"""Whoever edits what somebody else has edited meanwhile is told so, at every door. I57."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.access import services as access
from apps.alerts.services import report_plans, settings
from apps.common.errors import Conflict
from apps.dispatch.services import executors, tasks
from apps.jobs.services import control, types
from apps.journal.models import JournalEntry, Versioned
from apps.journal.services import writing
from apps.schedules.services import schedules
from tests import alerts, factories
from tests.clients import JsonClient
from tests.emptying import undone
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
VERA = "admin:vera"


class Kind(NamedTuple):
    """What is edited: `make` makes a row in version 1, `edit(row, changes, version=…)` edits it.

    `path` is its address over REST, `page` that of its form, `more` what an edit must say besides.
    """

    make: Callable[[], Any]
    edit: Callable[..., Any]
    field: str = "title"
    values: tuple[Any, Any] = ("First", "Second")
    path: str = ""
    page: str = ""
    more: dict[str, Any] = {}


def _client() -> Any:
    made, _key = access.create_client(name="Scanner", scopes=["read"], actor="test")
    return made


def _edit_client(row: Any, changes: dict[str, Any], **how: Any) -> Any:
    return access.edit_client(row, **{**vars(row.terms()), **changes}, **how)


def _edit_task(row: Any, changes: dict[str, Any], **how: Any) -> Any:
    return tasks.update_task(task=row, changes=changes, **how)


def _plan() -> Any:
    return alerts.report_plan(User.objects.create_superuser("owner"))


KINDS = {
    "dispatch.OnceTask": Kind(
        lambda: factories.once_task(factories.user()),
        _edit_task,
        path="once-tasks/{row.pk}/",
    ),
    "dispatch.RotateTask": Kind(
        lambda: factories.rotation(factories.user()),
        _edit_task,
        path="rotate-tasks/{row.pk}/",
    ),
    "dispatch.Executor": Kind(
        factories.user,
        lambda row, changes, **how: executors.update_executor(executor=row, changes=changes, **how),
        path="executors/{row.name}/",
    ),
    "jobs.JobType": Kind(
        factories.job_type,
        lambda row, changes, **how: types.update_type(job_type=row, changes=changes, **how),
        path="job-types/{row.name}/",
    ),
    "schedules.Schedule": Kind(
        factories.schedule,
        lambda row, changes, **how: schedules.update_schedule(schedule=row, changes=changes, **how),
        path="schedules/{row.pk}/",
    ),
    "alerts.AlertRule": Kind(alerts.rule, settings.update, field="name"),
    "alerts.Channel": Kind(alerts.channel, settings.update, field="name"),
    "alerts.ReportPlan": Kind(
        _plan,
        lambda row, changes, **how: report_plans.update_plan(
            plan=row, changes=changes, owner=row.owner, **how
        ),
    ),
    "jobs.Job": Kind(
        lambda: factories.job(delay=timedelta(hours=1)),
        lambda row, changes, **how: control.edit(job=row, changes=changes, reason="Asked", **how),
        field="priority",
        values=(5, 6),
        path="jobs/{row.pk}/",
        page="admin:jobs_job_edit",
        more={"reason": "Asked"},
    ),
    "access.ApiClient": Kind(_client, _edit_client, field="name"),
}
# Rows that do not say who changed them last; the version of a job grows with each of its arrows.
OTHERS = {"jobs.Job", "access.ApiClient"}


def as_it_is(row: Any, kind: Kind) -> tuple[Any, int, int]:
    """The edited value, the version, and how many entries the journal has."""
    stored = type(row)._default_manager.get(pk=row.pk)
    return getattr(stored, kind.field), stored.version, JournalEntry.objects.count()


def test_every_edited_row_is_among_them() -> None:
    edited = {model._meta.label for model in apps.get_models() if issubclass(model, Versioned)}
    # Rows of the inbox are corrected, not edited.
    assert edited - {"jobs.InboxRow"} == KINDS.keys() - {"jobs.Job"}


def test_versions_of_edited_rows_are_counted_in_one_place() -> None:
    stamp = re.compile(r"\.updated_by\b[^=\n]*=(?!=)")
    found = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "apps").rglob("*.py")
        if stamp.search(file.read_text())
    }
    assert found == {"apps/journal/models.py"}


def test_edit_of_an_older_version_is_refused_by_the_service(subtests: pytest.Subtests) -> None:
    """I39, I55: an edit has one entry, and one that changes nothing none."""
    for label, kind in KINDS.items():
        with subtests.test(label), undone():
            row = kind.make()
            old, (first, second) = getattr(row, kind.field), kind.values
            kind.edit(row, {kind.field: first}, version=1, actor=VERA)
            edited = as_it_is(row, kind)
            assert edited[:2] == (first, 2)
            entry = JournalEntry.objects.latest("id")
            assert (entry.actor, entry.subject_id) == (VERA, row.pk)
            if label != "jobs.Job":
                told = {name: entry.data[name] for name in ("before", "after")}
                assert told == {"before": {kind.field: old}, "after": {kind.field: first}}

            with pytest.raises(Conflict, match="version 1, now 2") as refused:
                kind.edit(row, {kind.field: second}, version=1, actor="admin:olga")

            assert ("changed by admin:vera" in refused.value.detail) == (label not in OTHERS)
            kind.edit(row, {kind.field: first}, version=2, actor="admin:olga")
            assert as_it_is(row, kind) == edited


def test_edit_that_cannot_be_recorded_is_undone(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I55: change and entry are one transaction."""

    def fail(*_: object) -> None:
        raise RuntimeError("no journal")

    for label, kind in KINDS.items():
        with subtests.test(label), undone():
            row = kind.make()
            before = as_it_is(row, kind)
            with monkeypatch.context() as broken:
                broken.setattr(writing, "_insert", fail)
                with pytest.raises(RuntimeError, match="no journal"):
                    kind.edit(row, {kind.field: kind.values[0]}, version=1, actor=VERA)
            assert as_it_is(row, kind) == before


def test_edit_of_an_older_version_is_refused_over_rest(
    api: JsonClient, subtests: pytest.Subtests
) -> None:
    """Without `version` the last edit wins."""
    for label, kind in KINDS.items():
        if not kind.path:
            continue
        with subtests.test(label), undone():
            row = kind.make()
            path, (first, second) = f"/api/v1/{kind.path.format(row=row)}", kind.values
            body = {kind.field: first, "version": 1, **kind.more}
            assert api.patch(path, body).status_code == 200
            assert JournalEntry.objects.latest("id").actor.startswith("key:")
            edited = as_it_is(row, kind)

            stale = api.patch(path, {**body, kind.field: second})

            assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
            assert as_it_is(row, kind) == edited
            if label not in OTHERS:
                assert api.patch(path, {kind.field: second}).json()["version"] == 3


def test_edit_of_an_older_version_is_refused_by_the_page(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """It names who was faster, and shows both values."""
    for label, kind in KINDS.items():
        with subtests.test(label), undone():
            row = kind.make()
            page = kind.page or f"admin:{label.lower().replace('.', '_')}_change"
            url, (first, second) = reverse(page, args=[row.pk]), kind.values
            form = form_of(admin_client.get(url), kind.field)
            kind.edit(row, {kind.field: first}, version=1, actor=VERA)
            edited = as_it_is(row, kind)

            answer = admin_client.post(url, {**form, kind.field: second, **kind.more})

            assert answer.status_code == 409
            shown = text_of(answer)
            assert "vera changed this" in shown
            assert f"{kind.field.capitalize()} {second} {first}" in shown
            assert as_it_is(row, kind) == edited
