"""Planning: executors, members, templates and once tasks, each edit with its journal entry."""

from __future__ import annotations

import pytest

from apps.common.errors import Invalid
from apps.common.json_rules import canonical
from apps.dispatch.models import Executor, OnceTask
from apps.dispatch.services import executors, tasks, templates
from apps.journal.models import JournalEntry
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.both]

OLGA = factories.OPERATOR


def plan_version(name: str) -> int:
    return Executor.objects.get(name=name).plan_version


def last_entry() -> JournalEntry:
    entry = JournalEntry.objects.filter(source="plan").order_by("id").last()
    assert entry is not None
    return entry


class TestExecutors:
    def test_membership_change_touches_the_plan_of_that_user_only(self) -> None:
        """S0.5, S0.32: the queue of who joined is void, nobody else's."""
        group = factories.group("gid_a", ["uid_a"])
        before = plan_version("uid_a"), plan_version("gid_a")
        executors.change_members(group=group, add=["uid_b"], actor=OLGA)
        assert (plan_version("uid_a"), plan_version("gid_a")) == before
        assert plan_version("uid_b") == 1


class TestTemplates:
    def test_true_is_another_word_of_a_schema_than_1(self) -> None:
        for number, value in enumerate((1, True, 1.0), start=1):
            schema = {"type": "object", "properties": {"n": {"const": value}}}
            assert factories.template("photo", schema).version == number

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


class TestOnceTasks:
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
