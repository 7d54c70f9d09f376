"""What would stop a platform in use during an upgrade is refused: by `make check`, or here."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.db import models
from django.db.migrations import Migration
from django.db.migrations import operations as do
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from apps.common.fields import KeyField
from taskplatform import beat, celery, upgrades
from tests.releases import check_out, last_release

LATEST = MigrationLoader(None).project_state()
# Millions of rows.
LARGE = {"seconds_per_million": {"jobs.Job": 12}}


def errors_of(operation: Operation, app: str = "jobs", **said: Any) -> list[str]:
    """The numbers of the errors of a migration with this operation behind all others."""
    migration = type("Migration", (Migration,), {"operations": [operation], **said})("0099", app)
    return [
        str(each.id).removeprefix("upgrades.")
        for each in upgrades.errors_of(migration, LATEST.clone(), {"jobs.uniquelock"})
    ]


def test_each_kind_of_trouble_is_refused_until_it_is_said_or_mended(
    subtests: pytest.Subtests,
) -> None:
    key, filled = KeyField(max_length=8), KeyField(max_length=8, db_default="")
    unused = {"unused_since": "0.3.0"}
    for operation, said, numbers in (
        (do.AddField("worker", "color", key), {}, ["E002"]),
        (do.AddField("worker", "color", filled), {}, []),
        (do.AddField("worker", "color", KeyField(max_length=8, null=True)), {}, []),
        (do.AddField("uniquelock", "color", key), {}, []),
        (do.AddField("job", "color", key), LARGE, ["E002"]),
        (do.AddField("job", "color", filled), {}, ["E004"]),
        (do.AddField("job", "color", filled), {"seconds_per_million": {}}, ["E004"]),
        (do.AddField("job", "color", filled), LARGE, []),
        (do.RemoveField("worker", "host"), {}, ["E003"]),
        (do.RemoveField("worker", "host"), unused, []),
        (do.RenameField("worker", "host", "home"), {}, ["E003"]),
        (do.DeleteModel("hold"), {}, ["E003"]),
        (do.RenameModel("Hold", "Grip"), {}, ["E003"]),
        (do.AlterField("hold", "answer", models.JSONField(db_default="{}")), {}, ["E003"]),
        (do.AlterField("job", "host", KeyField(max_length=200)), {}, ["E004"]),
        (do.AlterField("job", "host", KeyField("on", max_length=128, blank=True)), {}, []),
        (do.AddIndex("job", models.Index(fields=["host"], name="job_host")), {}, ["E004"]),
        (do.AddIndex("hold", models.Index(fields=["token"], name="hold_token")), {}, []),
        (do.RemoveIndex("job", "job_type_key"), {}, []),
        (do.AlterModelOptions("job", {"verbose_name": "work"}), {}, []),
        (do.AlterUniqueTogether("job", {("type", "key")}), {}, ["E004"]),
        (do.RunPython(do.RunPython.noop), {}, ["E004"]),
        (do.RunSQL("SELECT 1"), {}, ["E004"]),
        (do.RunSQL("SELECT 1"), {"seconds_per_million": {}}, []),
        (do.SeparateDatabaseAndState([do.AddField("worker", "color", key)]), {}, ["E002"]),
        (do.CreateModel("Shelf", [("id", models.BigAutoField(primary_key=True))]), {}, []),
    ):
        with subtests.test(operation=operation.describe(), said=said):
            assert errors_of(operation, **said) == numbers


def test_error_says_where_what_and_what_to_do() -> None:
    migration = type("Migration", (Migration,), {"operations": [do.RunSQL("SELECT 1")]})
    [error] = upgrades.errors_of(migration("0099_tea", "jobs"), LATEST.clone())

    assert error.msg.startswith("jobs.0099_tea: Raw SQL operation: what the code does to large")
    assert "{} for none" in str(error.hint)


def test_released_migrations_stay_as_they_are_and_later_ones_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the command of `make check`."""
    assert run_checks(tags=["upgrades"], include_deployment_checks=True) == []

    before = dict(upgrades.RELEASED)
    for wrong in (("0008_answers", "other"), ("0008_question", before["jobs"][1])):
        monkeypatch.setattr(upgrades, "RELEASED", {**before, "jobs": wrong})
        [error] = upgrades.check_migrations()
        assert error.id == "upgrades.E001"
        assert "put the files back" in str(error.hint)

    earlier = ("0004_archive", upgrades.digest_of(MigrationLoader(None), "jobs", "0004_archive"))
    monkeypatch.setattr(upgrades, "RELEASED", {**before, "jobs": earlier})
    # It makes partitions by code of its own.
    assert "jobs.0005_archive_rolls: Raw Python" in upgrades.check_migrations()[0].msg


@pytest.mark.long
def test_check_knows_the_migrations_of_the_last_release(tmp_path: Path) -> None:
    """A release sets them anew; without that its own could be changed later."""
    _, commit = last_release((settings.BASE_DIR / "CHANGELOG.md").read_text())
    check_out(commit, tmp_path / "old")

    found = {}
    for folder in (tmp_path / "old" / "apps").glob("*/migrations"):
        files = sorted(folder.glob("[0-9]*.py"))
        text = b"".join(file.read_bytes() for file in files)
        found[folder.parent.name] = (files[-1].stem, hashlib.sha256(text).hexdigest()[:16])
    assert found == upgrades.RELEASED


def test_changes_say_what_the_present_release_brings() -> None:
    changes = (settings.BASE_DIR / "CHANGELOG.md").read_text()
    version, commit = last_release(changes)

    assert version == settings.RELEASE
    assert f"`git tag release/{version} {commit}`" in changes


# --- Sweeps ---------------------------------------------------------------------------------------


def queues_read(serves: list[str] | None, *sweeps: str) -> set[str]:
    """The queues that a worker with these sweeps reads, whose command names others or none."""
    queues = celery.app.amqp.Queues([])
    queues.select(serves)
    amqp = SimpleNamespace(queues=queues)
    celery._read_own_queues(SimpleNamespace(app=SimpleNamespace(amqp=amqp, tasks=sweeps)))
    return {*queues.consume_from}


def test_workers_read_no_queue_with_sweeps_that_only_another_release_knows() -> None:
    celery.app.loader.import_default_modules()
    known = [name for name in celery.app.tasks if not name.startswith("celery.")]
    # A beat of the last release sends them as long as it runs.
    assert {*known} >= beat.SHARING
    assert {sent["task"] for sent in beat.schedule().values()} <= {*known}

    def queue_of(sweep: str) -> str:
        return str(celery.app.amqp.router.route({}, sweep)["queue"].name)

    added = "jobs.of_the_next_release"
    for serves in (["sweeps"], ["sweeps", "fast"], None):
        assert {*map(queue_of, known)} <= queues_read(serves, *known)
        assert queue_of(added) not in queues_read(serves, *known)
        assert queue_of(added) in queues_read(serves, *known, added)
    assert queues_read(["fast", "slow"], *known) == {"fast", "slow"}
    assert celery.app.amqp.router.route({"queue": "fast"}, added)["queue"].name == "fast"
