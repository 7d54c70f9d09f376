"""Planning: executors, members, templates and once tasks, each edit with its journal entry."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from apps.common.errors import Conflict, Invalid, NotFound, TooDeep
from apps.common.json_rules import canonical
from apps.dispatch.models import Dispatch, Executor, OnceTask, OperatorScope, Template
from apps.dispatch.services import executors, tasks, templates
from apps.journal.models import JournalEntry
from tests import factories
from tests.callback import take_next

pytestmark = [pytest.mark.django_db, pytest.mark.both]

OLGA = factories.OPERATOR


def plan_version(name: str) -> int:
    return Executor.objects.get(name=name).plan_version


def last_entry() -> JournalEntry:
    entry = JournalEntry.objects.filter(source="plan").order_by("id").last()
    assert entry is not None
    return entry


class TestExecutors:
    def test_kind_follows_the_prefix(self) -> None:
        """S0.5."""
        assert factories.user("uid_a").kind == "user"
        assert factories.group("gid_a").is_group

    def test_name_is_taken_once(self) -> None:
        factories.user("uid_a")
        with pytest.raises(Invalid, match="uid_a exists already"):
            factories.user("uid_a")

    def test_adding_an_unknown_user_makes_it(self) -> None:
        group = factories.group("gid_a")
        assert executors.change_members(group=group, add=["uid_b", "uid_a"], actor=OLGA) == [
            "uid_a",
            "uid_b",
        ]

    def test_membership_change_touches_the_plan_of_that_user_only(self) -> None:
        """S0.5, S0.32: the queue of who joined is void, nobody else's."""
        group = factories.group("gid_a", ["uid_a"])
        before = plan_version("uid_a"), plan_version("gid_a")
        executors.change_members(group=group, add=["uid_b"], actor=OLGA)
        assert (plan_version("uid_a"), plan_version("gid_a")) == before
        assert plan_version("uid_b") == 1

    def test_repeating_a_membership_change_changes_nothing(self) -> None:
        group = factories.group("gid_a", ["uid_a"])
        entries = JournalEntry.objects.count()
        executors.change_members(group=group, add=["uid_a"], remove=["uid_z"], actor=OLGA)
        assert JournalEntry.objects.count() == entries

    def test_bad_members_change_nothing(self, subtests: pytest.Subtests) -> None:
        group = factories.group("gid_a")
        cases: list[tuple[list[str], list[str], str]] = [
            (["gid_b"], [], "add[0]"),
            (["uid_a", "bob"], [], "add[1]"),
            ([], ["uid_x y"], "remove[0]"),
            (["uid_a"], ["uid_a"], "remove"),
            ([f"uid_{i}" for i in range(1001)], [], "add"),
        ]
        for add, remove, field in cases:
            with subtests.test(field=field):
                with pytest.raises(Invalid) as caught:
                    executors.change_members(group=group, add=add, remove=remove, actor=OLGA)
                assert caught.value.errors[0].field == field
                assert executors.member_names(group) == []
                assert Executor.objects.count() == 1

    def test_user_has_no_members(self) -> None:
        with pytest.raises(Invalid, match="uid_a is a user"):
            executors.change_members(group=factories.user("uid_a"), add=["uid_b"], actor=OLGA)

    def test_stale_edit_is_a_conflict(self) -> None:
        """I57: nothing of the newer edit is overwritten."""
        executor = factories.user("uid_a")
        executors.update_executor(
            executor=executor, changes={"title": "Ann"}, actor=OLGA, version=1
        )
        with pytest.raises(Conflict, match="changed by admin:olga"):
            executors.update_executor(
                executor=executor, changes={"enabled": False}, actor="admin:pete", version=1
            )
        executor.refresh_from_db()
        assert (executor.title, executor.enabled, executor.version) == ("Ann", True, 2)

    def test_edit_writes_one_journal_entry_with_before_and_after(self) -> None:
        """I55: who, when, before, after and why, in the same transaction."""
        executor = factories.user("uid_a", title="Ann")
        entries = JournalEntry.objects.count()
        executors.update_executor(
            executor=executor,
            changes={"title": "Anna", "enabled": True},
            actor=OLGA,
            reason="married",
        )
        assert JournalEntry.objects.count() == entries + 1
        entry = last_entry()
        assert (entry.event, entry.actor, entry.reason, entry.executor) == (
            "executor_changed",
            OLGA,
            "married",
            "uid_a",
        )
        assert entry.data == {"before": {"title": "Ann"}, "after": {"title": "Anna"}}

    def test_rolled_back_edit_leaves_nothing(self) -> None:
        """I25: a row exists if and only if its transaction committed."""
        with pytest.raises(RuntimeError), transaction.atomic():
            factories.group("gid_a", ["uid_a"])
            raise RuntimeError
        assert not Executor.objects.exists()
        assert not JournalEntry.objects.exists()

    def test_only_an_unused_executor_can_be_deleted(self) -> None:
        used = factories.user("uid_a")
        factories.once_task(used)
        with pytest.raises(Conflict, match="Once tasks addressed to it: 1"):
            executors.remove_executor(executor=used, actor=OLGA)
        unused = factories.user("uid_b")
        executors.remove_executor(executor=unused, actor=OLGA)
        assert not Executor.objects.filter(name="uid_b").exists()


class TestTemplates:
    def test_edit_makes_the_next_version(self) -> None:
        """S0.2: named and versioned."""
        first = factories.template("photo")
        second = templates.put_template(name="photo", schema={"type": "object"}, actor=OLGA)
        assert (first.version, second.version) == (1, 2)
        assert Template.objects.get(pk=first.pk).schema == first.schema

    def test_same_schema_makes_no_version(self) -> None:
        first = factories.template("photo")
        assert templates.put_template(name="photo", schema=first.schema, actor=OLGA).pk == first.pk

    def test_true_is_another_word_of_a_schema_than_1(self) -> None:
        for number, value in enumerate((1, True, 1.0), start=1):
            schema = {"type": "object", "properties": {"n": {"const": value}}}
            assert factories.template("photo", schema).version == number

    def test_stored_params_outlive_a_new_version(self) -> None:
        """I52: template edits never change stored params, nor what they were checked against."""
        task = factories.once_task(
            factories.user(), template=factories.template("photo"), params={"shop": "A"}
        )
        templates.put_template(
            name="photo", schema={"type": "object", "required": ["floor"]}, actor=OLGA
        )
        task.refresh_from_db()
        assert task.template is not None
        assert (task.template.version, task.params) == (1, {"shop": "A"})
        tasks.update_task(task=task, changes={"title": "Other"}, actor=OLGA)

    def test_used_template_cannot_be_deleted(self) -> None:
        """S0.2, I52: kept for the tasks and dispatches that name it, even deleted ones."""
        template = factories.template("photo")
        task = factories.once_task(factories.user(), template=template, params={"shop": "A"})
        tasks.update_task(task=task, changes={"template": None}, actor=OLGA)
        with pytest.raises(Conflict, match="photo v1 has been used"):
            templates.remove_template(template=template, actor=OLGA)

    def test_unused_template_can_be_deleted(self) -> None:
        templates.remove_template(template=factories.template("photo"), actor=OLGA)
        assert not Template.objects.exists()

    def test_retired_template_cannot_be_chosen_but_stays_where_it_is(self) -> None:
        """S0.2: its status is enforced."""
        template = factories.template("photo")
        task = factories.once_task(factories.user(), template=template, params={"shop": "A"})
        assert templates.set_status(template=template, status="retired", actor=OLGA)
        assert not templates.set_status(template=template, status="retired", actor=OLGA)
        tasks.update_task(task=task, changes={"params": {"shop": "B"}}, actor=OLGA)
        with pytest.raises(Invalid, match="photo v1 is retired"):
            factories.once_task(task.executor, template=template, params={"shop": "A"})
        with pytest.raises(Invalid, match="retired"):
            templates.find_usable("photo")

    def test_bad_name_is_refused(self) -> None:
        for name in ("", "a b", "é", "x" * 101):
            with pytest.raises(Invalid) as caught:
                templates.put_template(name=name, schema={"type": "object"}, actor=OLGA)
            assert caught.value.errors[0].field == "name"


class TestOnceTasks:
    def test_params_are_checked_against_the_template(self) -> None:
        """S0.2, S0.3."""
        with pytest.raises(Invalid) as caught:
            factories.once_task(
                factories.user(), template=factories.template(), params={"photos": "x"}
            )
        assert {error.field for error in caught.value.errors} == {"params.shop", "params.photos"}
        assert not OnceTask.objects.exists()

    def test_start_defaults_to_now(self, frozen_clock: Any) -> None:
        assert factories.once_task(factories.user()).start_at == frozen_clock.instant

    def test_bad_field_is_named_and_nothing_saved(self, subtests: pytest.Subtests) -> None:
        alice = factories.user()
        cases: dict[str, Any] = {
            "mode": "double",
            "on_failure": "x",
            "status": "deleted",
            "dispatch_times": 2,
            "colour": "red",
            "params": {"a": float("nan")},
        }
        for field, value in cases.items():
            with subtests.test(field=field):
                with pytest.raises(Invalid) as caught:
                    factories.once_task(alice, **{field: value})
                assert [error.field for error in caught.value.errors] == [field]
                assert not OnceTask.objects.exists()

    def test_too_deep_params_are_refused(self) -> None:
        nested: dict[str, Any] = {}
        for _ in range(21):
            nested = {"a": nested}
        with pytest.raises(TooDeep):
            factories.once_task(factories.user(), params=nested)

    def test_moving_to_another_executor_touches_both_plans(self) -> None:
        """S0.32: the old and the new queue are void."""
        old, new = factories.user("uid_a"), factories.user("uid_b")
        task = factories.once_task(old)
        before = plan_version("uid_a"), plan_version("uid_b")
        tasks.update_task(task=task, changes={"executor": new}, actor=OLGA)
        assert (plan_version("uid_a"), plan_version("uid_b")) == (before[0] + 1, before[1] + 1)

    def test_edit_writes_only_what_changed(self) -> None:
        """I57: a column that the form did not change keeps what another edit wrote."""
        task = factories.once_task(factories.user())
        tasks.update_task(task=task, changes={"priority": 5}, actor="admin:pete")
        changed = tasks.update_task(task=task, changes={"title": "New"}, actor=OLGA)
        assert (changed.priority, changed.title, changed.version) == (5, "New", 3)
        assert last_entry().data == {
            "before": {"title": "Check the shelf"},
            "after": {"title": "New"},
        }

    def test_edit_without_a_difference_changes_nothing(self) -> None:
        task = factories.once_task(factories.user())
        entries = JournalEntry.objects.count()
        tasks.update_task(task=task, changes={"title": task.title}, actor=OLGA)
        assert JournalEntry.objects.count() == entries
        assert OnceTask.objects.get(pk=task.pk).version == 1

    def test_true_is_another_param_than_1(self) -> None:
        """I18: what the answer shows is what is stored."""
        task = factories.once_task(factories.user(), params={"deep": [{"n": 1}]})
        for value in (True, 1.0, 1):
            changed = tasks.update_task(
                task=task, changes={"params": {"deep": [{"n": value}]}}, actor=OLGA
            )
            stored = OnceTask.objects.get(pk=task.pk)
            assert canonical(stored.params) == canonical(changed.params)
            assert type(stored.params["deep"][0]["n"]) is type(value)

    def test_stale_edit_is_a_conflict(self) -> None:
        """I57."""
        task = factories.once_task(factories.user())
        tasks.update_task(task=task, changes={"priority": 5}, actor=OLGA, version=1)
        with pytest.raises(Conflict, match=r"version 1, now 2"):
            tasks.update_task(task=task, changes={"priority": 6}, actor=OLGA, version=1)
        assert OnceTask.objects.get(pk=task.pk).priority == 5

    def test_started_task_shifted_keeps_its_stock(self, frozen_clock: Any) -> None:
        """S0.9: the occurrence of a once task is 0, so a shift does not hand it out anew."""
        group = factories.group("gid_all", ["uid_a", "uid_b"])
        task = factories.once_task(group, mode="multi", dispatch_times=1)
        take_next(factories.member("uid_a"))
        tasks.update_task(task=task, changes={"start_at": frozen_clock.instant}, actor=OLGA)
        assert not hasattr(take_next(factories.member("uid_b")), "pk")

    def test_deleted_task_is_gone_for_everybody(self) -> None:
        task = factories.once_task(factories.user())
        assert tasks.delete_task(task=task, actor=OLGA, reason="planned twice")
        assert not tasks.delete_task(task=task, actor=OLGA)
        assert last_entry().reason == "planned twice"
        with pytest.raises(NotFound):
            tasks.find_task(OnceTask, task.pk)
        with pytest.raises(Conflict, match="is deleted"):
            tasks.update_task(task=task, changes={"title": "x"}, actor=OLGA)
        assert OnceTask.objects.get(pk=task.pk).status == "deleted"


class TestScopesOfOperators:
    def test_operator_with_scopes_sees_these_executors_only(self, django_user_model: Any) -> None:
        """Object visibility: a group stands for itself and its members."""
        sales = factories.group("gid_sales", ["uid_a"])
        eve = factories.user("uid_eve")
        mine, other = factories.once_task(sales), factories.once_task(eve)
        for name in ("uid_a", "uid_eve"):
            take_next(factories.member(name))
        limited = django_user_model.objects.create_user("pete")
        OperatorScope.objects.create(operator=limited, executor=sales)

        assert {e.name for e in Executor.objects.visible_to(limited)} == {"gid_sales", "uid_a"}
        assert [t.pk for t in OnceTask.objects.visible_to(limited)] == [mine.pk]
        assert [d.task for d in Dispatch.objects.visible_to(limited)] == [mine.pk]

        boss = django_user_model.objects.create_superuser("boss")
        OperatorScope.objects.create(operator=boss, executor=eve)
        assert OnceTask.objects.visible_to(boss).count() == 2
        assert {mine.pk, other.pk} == {
            t.pk for t in OnceTask.objects.visible_to(django_user_model.objects.create_user("al"))
        }
