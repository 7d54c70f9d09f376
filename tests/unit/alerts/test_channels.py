"""Requests to channels and what their answers mean, by what the vendors document."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from apps.alerts.channels import dingtalk, feishu, slack, webhook, wecom
from apps.alerts.channels.contract import Message, Request, Target

NOW = datetime(2026, 3, 2, 9, 0, 0, 250_000, tzinfo=UTC)
SECOND = 1_772_442_000
MESSAGE = Message(
    id="17",
    title="Critical · mail <all> · mail",
    text="34 % of [mail](https://evil.example) *failed*.\n# next",
    url="https://tasks.example.org/admin/alerts/alert/3/change/",
    open="Open the alert",
    is_critical=True,
    wire={"event": "alert.firing", "id": "17", "text": "34 %", "title": "é"},
)


def body_of(request: Request) -> Any:
    return json.loads(request.body)


def test_webhook_is_signed_over_time_and_body() -> None:
    request = webhook.request(Target(url="https://a.example/x", secret="s3cret"), MESSAGE, NOW)

    assert request.url == "https://a.example/x"
    assert body_of(request) == MESSAGE.wire
    assert request.headers["Idempotency-Key"] == "17"
    assert request.headers["X-Taskplatform-Timestamp"] == str(SECOND)
    signed = hmac.new(b"s3cret", f"{SECOND}.".encode() + request.body, hashlib.sha256)
    assert request.headers["X-Taskplatform-Signature"] == f"v1={signed.hexdigest()}"


def test_webhook_without_a_secret_is_not_signed() -> None:
    request = webhook.request(Target(url="https://a.example/x"), MESSAGE, NOW)
    assert "X-Taskplatform-Signature" not in request.headers


def test_webhook_goes_by_the_status(subtests: pytest.Subtests) -> None:
    outcomes = {"ok": (200, 204), "fail": (302, 400, 404), "retry": (408, 425, 429, 500, 503)}
    for outcome, statuses in outcomes.items():
        for status in statuses:
            with subtests.test(status=status):
                assert webhook.verdict(status, b"why").outcome == outcome


def test_dingtalk_signs_in_the_address() -> None:
    url = "https://oapi.dingtalk.com/robot/send?access_token=T"
    request = dingtalk.request(Target(url=url, secret="SEC1"), MESSAGE, NOW)

    asked = parse_qs(urlsplit(request.url).query)
    ms = str(SECOND * 1000 + 250)
    digest = hmac.new(b"SEC1", f"{ms}\nSEC1".encode(), hashlib.sha256).digest()
    assert asked == {
        "access_token": ["T"],
        "timestamp": [ms],
        "sign": [base64.b64encode(digest).decode()],
    }
    body = body_of(request)
    assert (body["msgtype"], body["at"]) == ("markdown", {"isAtAll": False})
    assert body["markdown"]["text"].endswith(f"[Open the alert]({MESSAGE.url})")


def test_feishu_signs_in_the_body() -> None:
    request = feishu.request(Target(url="https://open.feishu.cn/h/T", secret="S"), MESSAGE, NOW)

    body = body_of(request)
    digest = hmac.new(f"{SECOND}\nS".encode(), b"", hashlib.sha256).digest()
    assert (body["timestamp"], body["sign"]) == (str(SECOND), base64.b64encode(digest).decode())
    assert body["card"]["header"]["template"] == "red"
    assert body["card"]["elements"][1]["actions"][0]["url"] == MESSAGE.url


@pytest.mark.parametrize("channel", [dingtalk, wecom, feishu], ids=lambda each: each.__name__)
def test_foreign_text_is_no_markup_for_bots(channel: Any) -> None:
    text = channel.request(Target(url="https://bot.example/x?k=1"), MESSAGE, NOW).body.decode()
    assert "(https://evil.example)" in text
    assert "[mail]" not in text
    assert "*failed*" not in text


def test_foreign_text_is_no_markup_for_slack() -> None:
    message = replace(MESSAGE, text="<!channel> & <https://evil.example|x>")
    body = body_of(slack.request(Target(url="https://hooks.slack.com/x"), message, NOW))
    assert "&lt;!channel&gt; &amp; &lt;https" in body["blocks"][0]["text"]["text"]


@pytest.mark.parametrize("text", ["x" * 5000, "&" * 2000, "告警" * 3000])
def test_slack_takes_3000_characters(text: str) -> None:
    message = replace(MESSAGE, text=text)
    body = body_of(slack.request(Target(url="https://hooks.slack.com/x"), message, NOW))
    section = body["blocks"][0]["text"]["text"]
    assert 2990 <= len(section) <= 3000
    # No half of an escape.
    assert section.count("&") == section.count(";")


def test_lines_of_a_text_stay_lines(subtests: pytest.Subtests) -> None:
    for channel, path in (
        (dingtalk, ("markdown", "text")),
        (wecom, ("markdown", "content")),
        (feishu, ("card", "elements", 0, "text", "content")),
        (slack, ("blocks", 0, "text", "text")),
    ):
        with subtests.test(channel=channel):
            message = replace(MESSAGE, title="Weekly", text="first\nsecond\nthird", is_report=True)
            found = body_of(channel.request(Target(url="https://bot.example/x?k=1"), message, NOW))
            for name in path:
                found = found[name]
            lines = [line for line in found.splitlines() if line]
            assert [each for each in lines if each in ("first", "second", "third")] == [
                "first",
                "second",
                "third",
            ]


def test_wecom_takes_4096_bytes() -> None:
    message = replace(MESSAGE, text="告警" * 2000)
    content = body_of(wecom.request(Target(url="https://q.example/x"), message, NOW))["markdown"][
        "content"
    ]
    assert 4090 <= len(content.encode()) <= 4096
    assert content.endswith(f"[Open the alert]({MESSAGE.url})")


def test_bots_say_in_the_body_whether_it_worked(subtests: pytest.Subtests) -> None:
    for channel, answer, outcome in (
        (dingtalk, {"errcode": 0, "errmsg": "ok"}, "ok"),
        (dingtalk, {"errcode": 310000, "errmsg": "sign not match"}, "unsure"),
        (wecom, {"errcode": 0, "errmsg": "ok"}, "ok"),
        (wecom, {"errcode": 45009, "errmsg": "freq limit"}, "retry"),
        (wecom, {"errcode": 93000, "errmsg": "invalid webhook url"}, "unsure"),
        (feishu, {"code": 0, "msg": "success"}, "ok"),
        (feishu, {"code": 19021, "msg": "sign match fail"}, "unsure"),
        (feishu, ["?"], "unsure"),
    ):
        with subtests.test(channel=channel, answer=answer):
            found = channel.verdict(200, json.dumps(answer).encode())
            assert found.outcome == outcome
            if outcome != "ok" and isinstance(answer, dict):
                assert str(answer.get("errmsg") or answer.get("msg")) in found.text


@pytest.mark.parametrize(("body", "outcome"), [(b"ok", "ok"), (b"no_service", "unsure")])
def test_slack_says_ok(body: bytes, outcome: str) -> None:
    assert slack.verdict(200, body).outcome == outcome


@pytest.mark.parametrize("code", [b"1e999", b"[" * 60_000, b"null"])
def test_bots_that_answer_with_what_is_no_code(code: bytes) -> None:
    for channel, name in ((dingtalk, b"errcode"), (wecom, b"errcode"), (feishu, b"code")):
        body = b'{"%s":%s}' % (name, code)
        assert channel.verdict(200, body).outcome == "unsure"


def test_bots_that_fail_as_servers_do(subtests: pytest.Subtests) -> None:
    for channel, (status, outcome) in product(
        (dingtalk, wecom, feishu, slack), ((503, "retry"), (429, "retry"), (403, "fail"))
    ):
        with subtests.test(channel=channel, status=status):
            assert channel.verdict(status, b"busy").outcome == outcome
