"""What a rule, a report plan and a channel may not say, each on both sides of its limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from apps.alerts.rules.faults import channel_faults, rule_faults
from apps.common.errors import FieldError
from apps.reports.rules.limits import NO_LIMIT, Limit

LIMITS = {"rate": Limit(0.2, highest=1.0), "silent": NO_LIMIT}
RULE = {
    "name": "Mail",
    "kind": "rate",
    "threshold": None,
    "for_seconds": None,
    "repeat_minutes": 1,
    "quiet_from": None,
    "quiet_to": None,
    "quiet_zone": "",
    "quiet_days": "1234567",
}
HOOK = {"name": "Ops", "kind": "slack", "url": "https://a.example", "secret": "", "recipients": []}
MAIL = {**HOOK, "kind": "mail", "url": "", "recipients": ["ann@example.org"]}

RULES: list[tuple[dict[str, Any], str]] = [
    ({"threshold": 1.0, "for_seconds": 86_400, "repeat_minutes": 10_080}, ""),
    ({"for_seconds": 0, "quiet_from": 1, "quiet_to": 2, "quiet_zone": "Asia/Shanghai"}, ""),
    ({"name": " "}, "name"),
    ({"kind": "none", "threshold": 9}, "kind"),
    ({"kind": "silent", "threshold": 1}, "threshold"),
    ({"threshold": 0}, "threshold"),
    ({"threshold": 1.01}, "threshold"),
    ({"for_seconds": -1}, "for_seconds"),
    ({"for_seconds": 86_401}, "for_seconds"),
    ({"repeat_minutes": 0}, "repeat_minutes"),
    ({"repeat_minutes": 10_081}, "repeat_minutes"),
    ({"quiet_from": 1}, "quiet_to"),
    ({"quiet_to": 1}, "quiet_from"),
    ({"quiet_zone": "Moon"}, "quiet_zone"),
    ({"quiet_days": ""}, "quiet_days"),
    ({"quiet_days": "18"}, "quiet_days"),
]
PLANS = [
    ({}, ""),
    ({"title": " "}, "title"),
    ({"rule": {"cron": "at nine"}}, "rule.cron"),
    ({"time_zone": "Moon"}, "time_zone"),
]
HOOKS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"url": "http://a.example:8080/x?a=b#c"}, ""),
    ({"url": "https://a.example/" + "x" * 982}, ""),
    ({"kind": "webhook", "secret": "x" * 200}, ""),
    ({"name": ""}, "name"),
    ({"kind": "pigeon"}, "kind"),
    ({"url": ""}, "url"),
    ({"url": "https://a.example/" + "x" * 983}, "url"),
    ({"url": "ftp://a.example"}, "url"),
    ({"url": "a.example/x"}, "url"),
    ({"url": "https:///x"}, "url"),
    ({"url": "https://ann@a.example"}, "url"),
    ({"url": "https://:s3cret@a.example"}, "url"),
    ({"url": "https://a.example:99999"}, "url"),
    ({"url": "https://[a.example"}, "url"),
    ({"url": "https://a.example/é"}, "url"),
    ({"url": "https://a.example/a b"}, "url"),
    ({"kind": "webhook", "secret": "x" * 201}, "secret"),
    ({"secret": "x"}, "secret"),
    ({"recipients": ["ann@example.org"]}, "recipients"),
]
MAILS: list[tuple[dict[str, Any], str]] = [
    ({"recipients": ["ann@example.org"] * 50}, ""),
    ({"recipients": ["ann@example.org"] * 51}, "recipients"),
    ({"recipients": []}, "recipients"),
    ({"recipients": ["ann@example.org", "Ben <ben@example.org>"]}, "recipients"),
    ({"recipients": ["ann"]}, "recipients"),
    ({"recipients": ["ann@exämple.org", "a.b+c@mail", "ann@[10.0.0.7]"]}, ""),
    *(
        ({"recipients": [wrong]}, "recipients")
        for wrong in (
            *("änn@example.org", "ann(x)@example.org", "all:ann@example.org", "a@b@c", '"a"@b.org'),
            *("ann@example.org\x00", "a\x01@b.org", "ann@example.org\n", f"ann@{'a' * 64}.org"),
            *(f"ann@{'a.' * 130}org", "ann@a..org", f"{'a' * 65}@b.org", "ann@b_c:25"),
        )
    ),
]


def fields(found: Iterable[FieldError]) -> str:
    return " ".join(each.field for each in found)


def test_mistakes_are_said_by_field(subtests: pytest.Subtests) -> None:
    for given, field in RULES:
        with subtests.test(rule=given):
            assert fields(rule_faults({**RULE, **given}, LIMITS)) == field
    for usual, cases in ((HOOK, HOOKS), (MAIL, MAILS)):
        for given, field in cases:
            with subtests.test(channel=given):
                assert fields(channel_faults({**usual, **given}, has_mail=True)) == field
    assert fields(channel_faults(MAIL, has_mail=False)) == "kind"
