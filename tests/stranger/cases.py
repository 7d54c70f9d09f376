"""Tests of a project that uses the outbox: `manage.py test`, on whichever Django it has."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone as django_timezone
from taskplatform_client.outbox import apps, enqueue, enqueue_many, send_due, sending
from taskplatform_client.outbox.models import OutgoingJob
from taskplatform_client.sdk import ApiError, FakeClient, Unavailable

LIST = "/admin/taskplatform_outbox/outgoingjob/"


class Server(FakeClient):
    """Answers as `answer` says; keeps the requests that came in."""

    def __init__(self, answer: Callable[[list[dict[str, Any]]], None] = lambda jobs: None) -> None:
        super().__init__()
        self.answer = answer
        self.requests: list[tuple[str, list[str]]] = []

    def submit_many(self, jobs: Any, *, request_id: str = "") -> Any:
        self.requests.append((request_id, [job.get("key", "") for job in jobs]))
        self.answer(jobs)
        return super().submit_many(jobs, request_id=request_id)

    @property
    def keys(self) -> list[str]:
        return [job["key"] for job in self.submitted("mail")]


def fails(error: Exception) -> Callable[[list[dict[str, Any]]], None]:
    def answer(jobs: list[dict[str, Any]]) -> None:
        raise error

    return answer


def lost(cause: Exception) -> Unavailable:
    error = Unavailable("nobody answers", retry_after=1.0)
    error.__cause__ = cause
    return error


def mails(*keys: str) -> None:
    enqueue_many([{"type": "mail", "key": key} for key in keys])


def errors() -> dict[str, str]:
    return dict(OutgoingJob.objects.exclude(error="").values_list("key", "error"))


class OutboxTests(TestCase):
    def test_row_says_all_that_the_api_gets(self) -> None:
        client = FakeClient()
        before = datetime.now(UTC)
        enqueue("mail", {"to": "李雷"}, key="order-7", unique=True, delay=timedelta(hours=1))

        assert send_due(client) == 1

        [job] = client.submitted("mail")
        due = datetime.fromisoformat(job.pop("run_at"))
        assert timedelta(0) <= due - before - timedelta(hours=1) < timedelta(minutes=1)
        assert job == {"type": "mail", "context": {"to": "李雷"}, "key": "order-7", "unique": True}
        assert not OutgoingJob.objects.exists()
        assert send_due(client) == 0

    def test_rollback_takes_the_job_along(self) -> None:
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            enqueue("mail")
            raise ZeroDivisionError
        assert not OutgoingJob.objects.exists()

    def test_what_can_be_no_job_is_an_error_at_once(self) -> None:
        for wrong, fields in (
            (TypeError, {"context": {"to": object()}}),
            (TypeError, {"context": {1: "x"}}),
            (TypeError, {"colour": "red"}),
            (ValueError, {"run_at": datetime(2026, 1, 1)}),
            (ValueError, {"context": {"text": "x" * 300_000}}),
            (ValueError, {"context": {"n": float("nan")}}),
        ):
            with self.subTest(fields=str(fields)[:40]), self.assertRaises(wrong):
                enqueue("mail", **fields)
        assert not OutgoingJob.objects.exists()

    def test_refused_jobs_keep_their_reason_and_block_no_others(self) -> None:
        mails(*map(str, range(5)))
        named = ({"field": "jobs[1].type", "code": "invalid", "message": "no such type"},)

        def answer(jobs: list[dict[str, Any]]) -> None:
            if len(server.requests) == 1:
                raise ApiError(400, "invalid", "wrong", errors=named)

        server = Server(answer)
        assert send_due(server) == 4
        assert errors() == {"1": "type: no such type"}
        assert server.keys == ["0", "2", "3", "4"]
        assert server.requests[0][0] != server.requests[1][0]

    def test_refusal_that_names_none_is_narrowed_down_to_one(self) -> None:
        """Such as a body that a proxy finds too large."""
        mails(*map(str, range(9)))

        def answer(jobs: list[dict[str, Any]]) -> None:
            if any(job["key"] == "5" for job in jobs):
                raise ApiError(413, "", "Request Entity Too Large")

        server = Server(answer)
        assert send_due(server) == 8
        assert errors() == {"5": "Request Entity Too Large"}
        assert sorted(server.keys) == sorted("01234678")
        assert len({request_id for request_id, _ in server.requests}) == len(server.requests)

    def test_failures_keep_all_and_only_what_may_have_arrived_is_a_repeat(self) -> None:
        for error, is_repeat in (
            (lost(ConnectionRefusedError()), False),
            (lost(TimeoutError()), True),
            (lost(ConnectionResetError()), True),
            (ApiError(401, "not_authenticated", "This API key is not valid"), False),
            (ApiError(403, "forbidden", "lacks the scope submit"), False),
        ):
            with self.subTest(error=repr(error)):
                mails("a", "b")
                server = Server(fails(error))
                with self.assertRaises(type(error)):
                    send_due(server)
                mails("c")
                server.answer = lambda jobs: None
                assert send_due(server) == 3
                assert server.keys == ["a", "b", "c"]
                assert errors() == {}
                same = server.requests[0] == server.requests[1]
                assert same == is_repeat, server.requests

    def test_request_of_a_sender_that_died_is_repeated_as_it_was(self) -> None:
        mails("a", "b")
        first = Server(fails(KeyboardInterrupt()))
        with self.assertRaises(KeyboardInterrupt):
            send_due(first)
        mails("c")
        second = Server()
        # As long as the first may be at it, only what is new is sent.
        assert (send_due(second), second.keys) == (1, ["c"])
        OutgoingJob.objects.update(claimed_until=django_timezone.now())
        assert (send_due(second), second.keys) == (2, ["c", "a", "b"])
        assert second.requests[-1] == first.requests[0]

    def test_what_the_server_may_have_forgotten_is_left_to_a_person(self) -> None:
        mails("a")
        with self.assertRaises(Unavailable):
            send_due(Server(fails(lost(TimeoutError()))))
        mails("b")
        long_ago = django_timezone.now() - timedelta(hours=23, minutes=1)
        OutgoingJob.objects.filter(key="a").update(tried_at=long_ago)
        server = Server()
        assert (send_due(server), server.keys) == (1, ["b"])
        assert errors() == {"a": sending.UNKNOWN}

    def test_request_that_somebody_changed_is_left_to_a_person(self) -> None:
        mails("a", "b")
        said = "Request x asked for something else before; use a new request_id."

        def answer(jobs: list[dict[str, Any]]) -> None:
            if len(server.requests) == 1:
                raise ApiError(422, "conflict", said)

        server = Server(answer)
        # Under another request they might be there twice.
        assert send_due(server) == 0
        assert errors() == {"a": said, "b": said}

    def test_large_jobs_go_in_several_requests(self) -> None:
        text = "x" * 250_000
        enqueue_many([{"type": "mail", "key": str(n), "context": {"t": text}} for n in range(40)])
        server = Server()
        assert send_due(server) == 40
        assert [len(keys) for _, keys in server.requests] == [16, 16, 8]

    def test_2500_jobs_go_in_three_requests(self) -> None:
        mails(*map(str, range(2500)))
        server = Server()
        with CaptureQueriesContext(connection) as queries:
            assert send_due(server) == 2500
        # Seven for each request, two of which are savepoints of this test, and a last look.
        assert len(queries) == 23
        assert [len(keys) for _, keys in server.requests] == [1000, 1000, 500]
        assert server.keys == list(map(str, range(2500)))

    def test_settings_that_name_no_server_are_found_by_check(self) -> None:
        for said, ids in (
            ({}, ["taskplatform_outbox.W001"]),
            ({"URL": "http://tasks"}, ["taskplatform_outbox.W001"]),
            ({"URL": "tasks", "KEY": "a.s3cret"}, ["taskplatform_outbox.E001"]),
            ({"URL": "http://tasks", "KEY": "s3cret"}, ["taskplatform_outbox.E001"]),
            ({"URL": "http://tasks", "KEY": "a.s3cret", "URI": ""}, ["taskplatform_outbox.E001"]),
            ({"URL": "http://tasks", "KEY": "a.s3cret"}, []),
        ):
            with self.subTest(said=said), override_settings(TASKPLATFORM=said):
                found = apps.check_settings()
                assert [each.id for each in found] == ids
                assert "s3cret" not in str(found)
        with override_settings(TASKPLATFORM={}):
            enqueue("mail")
            with self.assertRaisesMessage(ImproperlyConfigured, "Name the server"):
                send_due()

    def test_migrations_say_what_the_models_say(self) -> None:
        call_command("makemigrations", "--check", "--dry-run", stdout=io.StringIO())


class WithinATransactionTests(TransactionTestCase):
    def test_nothing_is_sent_in_a_transaction_of_the_caller(self) -> None:
        """Its rollback would forget what was sent."""
        mails("a")
        server = Server()
        with self.assertRaises(RuntimeError), transaction.atomic():
            send_due(server)
        assert server.requests == []


class AdminTests(TestCase):
    def setUp(self) -> None:
        self.client.force_login(User.objects.create_superuser("ann"))
        mails("refused", "sent", "waiting")
        now = django_timezone.now()
        refused = OutgoingJob.objects.filter(key="refused")
        refused.update(refused_at=now, error="type: no such type <b>")
        until = now + timedelta(minutes=1)
        rows = OutgoingJob.objects.filter(key="sent")
        rows.update(request_id="r", tried_at=now, claimed_until=until)

    def act(self, action: str, **more: str) -> str:
        chosen = list(OutgoingJob.objects.values_list("pk", flat=True)[:100])
        data = {"action": action, "_selected_action": chosen, **more}
        return self.client.post(LIST, data, follow=True).content.decode()

    def test_list_and_page_show_what_waits_and_why(self) -> None:
        for state in ("refused", "sent", "waiting"):
            page = self.client.get(LIST, {"state": state}).content.decode()
            shown = [key for key in ("refused", "sent", "waiting") if f'field-key">{key}<' in page]
            assert shown == [state]
        assert "type: no such type &lt;b&gt;" in self.client.get(LIST).content.decode()
        row = OutgoingJob.objects.get(key="refused")
        page = self.client.get(f"{LIST}{row.pk}/change/").content.decode()
        assert "type: no such type &lt;b&gt;" in page
        assert "_save" not in page
        assert self.client.get(f"{LIST}add/").status_code == 403

    def test_send_again_and_discard_leave_what_is_being_sent(self) -> None:
        assert "1 job waits to be sent." in self.act("send_again")
        assert errors() == {}
        page = self.act("discard")
        assert "1 job is being sent and stays." in page
        assert OutgoingJob.objects.count() == 3
        assert "2 jobs are discarded." in self.act("discard", confirmed="1")
        assert [row.key for row in OutgoingJob.objects.all()] == ["sent"]

    def test_discard_takes_all_that_match_beyond_what_it_names(self) -> None:
        mails(*map(str, range(1200)))
        page = self.act("discard", select_across="1")
        assert "The server will never have these 1202 jobs:" in page
        assert page.count("mail ") == 100
        assert 'name="select_across" value="1"' in page
        done = self.act("discard", select_across="1", confirmed="1")
        assert "1202 jobs are discarded." in done

    def test_actions_are_for_those_who_may(self) -> None:
        viewer = User.objects.create_user("ben", is_staff=True)
        self.client.force_login(viewer)
        assert self.client.get(LIST).status_code == 403
        viewer.user_permissions.add(Permission.objects.get(codename="view_outgoingjob"))
        assert self.client.get(LIST).status_code == 200
        self.act("send_again")
        self.act("discard", confirmed="1")
        assert OutgoingJob.objects.count() == 3
        assert len(errors()) == 1

    def test_page_speaks_chinese(self) -> None:
        with self.settings(LANGUAGE_CODE="zh-hans"):
            page = self.client.get(LIST)
        for words in ("待发送的作业", "被拒绝", "重新发送"):
            assert words in page.content.decode()
