"""S0.11: cron expressions, read and followed as Debian's cron does."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.errors import Invalid
from apps.common.messages import Message
from apps.common.zones import parse_zone
from apps.dispatch.rules.cron import (
    FOUND_BY_CRONSIM,
    MAX_CHARACTERS,
    Cron,
    fields_of,
    parse_cron,
    require_meaning,
)
from apps.dispatch.rules.recurrence import Recurrence

LONGEST = ",".join(["10"] * 30) + " * * *"


def due(expression: str, zone: str, first: str, last: str) -> list[str]:
    """The instants between two, as day and time, searched forward and backward alike."""
    low, high = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (first, last))
    plan = Recurrence(
        rule=parse_cron(expression, field="cron"), zone=parse_zone(zone), start_at=low, end_at=high
    )
    found = list(plan.after(low))
    assert list(plan.before(high)) == found[::-1]
    return [f"{instant:%d %H:%M}" for instant in found]


# --- reading --------------------------------------------------------------------------------------
def test_expression_is_read(subtests: pytest.Subtests) -> None:
    for text, expression in (
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("  0\t9  * * mon-fri ", "0 9 * * MON-FRI"),
        ("*/15 0-23/2 L jan,dec 5#3", "*/15 0-23/2 L JAN,DEC 5#3"),
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        (" @Weekly ", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@midnight", "0 0 * * *"),
        ("@Annually", "0 0 1 1 *"),
        # The day never comes, but every Monday in February does.
        ("0 0 30 2 1", "0 0 30 2 1"),
        # Once in 28 years, and over the turn of a century once in 40.
        ("0 0 29 2 */7", "0 0 29 2 */7"),
        ("0 " + LONGEST, "0 " + LONGEST),
    ):
        with subtests.test(text=text):
            assert parse_cron(text, field="cron") == Cron(expression)


def test_what_cronsim_finds_wrong_is_known_to_the_catalogues(subtests: pytest.Subtests) -> None:
    for field in range(5):
        with subtests.test(field=field):
            parts = ["*"] * 5
            parts[field] = "x"
            with pytest.raises(Invalid) as raised:
                parse_cron(" ".join(parts), field="cron")
            detail = raised.value.detail
            assert isinstance(detail, Message)
            assert detail.params["error"] == FOUND_BY_CRONSIM[field]


def test_wrong_expression_is_refused(subtests: pytest.Subtests) -> None:
    for text, said in (
        ("", "'' has 0 fields; write minute, hour,"),
        ("0 0 9 * * *", "has 6 fields"),
        ("@reboot", "or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"),
        ("60 9 * * *", "'60 9 * * *' means no time that ever comes: Bad minute."),
        ("*/0 9 * * *", "Bad minute"),
        ("5-1 9 * * *", "Bad minute"),
        ("0 9 * * 1#6", "Bad day-of-week"),
        ("0 9 * * MOON", "Bad day-of-week"),
        ("٠ 9 * * *", "Bad minute"),
        ("0 9 * * ²L", "Bad day-of-week"),
        ("0 0 30 2 *", "means no time that ever comes"),
        ("0 0 */31 2 1#5", "The day of '0 0 */31 2 1#5' never comes"),
        ("0" * (MAX_CHARACTERS + 1), "at most 100 characters"),
        (None, "this is None"),
        (5, "this is 5"),
    ):
        with subtests.test(text=text):
            with pytest.raises(Invalid) as refusal:
                parse_cron(text, field="rule.cron")
            assert refusal.value.errors[0].field == "rule.cron"
            assert said in str(refusal.value)


def test_step_that_is_none_is_refused_where_it_is_written(subtests: pytest.Subtests) -> None:
    """Rows of earlier releases may have one, and go on as before."""
    for text, said in (
        ("*/90 9 * * *", "*/90: its field has 60 values"),
        ("0 5/25 * * *", "5/25: its field has 24 values"),
        ("0 0 */32 * *", "at most 31"),
        ("0 0 * 1,*/13 *", "*/13"),
        ("0 0 * * MON-FRI/8", "MON-FRI/8: its field has 7 values"),
        ("0 0 L/2 * *", "L/2: a last day has no steps; write L alone."),
        ("0 0 1,LW/1 * *", "LW/1: a last day has no steps; write LW alone."),
        ("*/60 0-23/24 1/31 */12 */7", ""),
        ("5/15 * L,LW * 5L,MON#2", ""),
    ):
        with subtests.test(text=text):
            cron = parse_cron(text, field="cron")
            if not said:
                require_meaning(cron, field="cron")
                continue
            with pytest.raises(Invalid) as refusal:
                require_meaning(cron, field="cron")
            assert said in str(refusal.value)


NAMES = ("minute", "hour", "day", "month", "weekday")
README = (Path(__file__).parents[3] / "apps/dispatch/README.md").read_text()
IN_CHINESE = (Path(__file__).parents[3] / "apps/dispatch/README.zh.md").read_text()


def test_readme_states_the_dialect(subtests: pytest.Subtests) -> None:
    """Each example of its table, by the days of March 2026 or by the numbers of its field."""
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| ([0-9, ]+) \|", README, re.MULTILINE)
    assert len(rows) == 12
    assert re.findall(r"^\| `([^`]+)` \| [分时日月星].* \| ([0-9, ]+) \|", IN_CHINESE, re.M) == [
        (field, values) for field, _name, values in rows
    ]
    for field, name, values in rows:
        with subtests.test(field=field):
            fields = fields_of(_with(name, field))
            numbers = {"minute": fields.minutes, "hour": fields.hours, "month": fields.months}
            found = sorted(numbers.get(name, fields.days_of(2026, 3)))
            assert found == [int(value) for value in values.split(",")]


def _with(name: str, field: str) -> str:
    parts = ["0", "0", "*", "*", "*"]
    parts[NAMES.index(name)] = field
    return " ".join(parts)


def test_readme_says_what_is_refused_on_purpose(subtests: pytest.Subtests) -> None:
    table = README.partition("| refused | write instead |\n|---|---|\n")[2].partition("\n\n")[0]
    refused = [
        each for row in table.splitlines() for each in re.findall("`([^`]+)`", row.split("|")[1])
    ]
    assert len(refused) == 11
    assert [each for each in refused if f"`{each}`" not in IN_CHINESE] == []
    for each in refused:
        for expression in {each} if " " in each else {_with(name, each) for name in NAMES}:
            with subtests.test(expression=expression), pytest.raises(Invalid):
                require_meaning(parse_cron(expression, field="cron"), field="cron")


@given(st.text(st.sampled_from("0123456789*/,-#LW @\x00é²") | st.characters(), max_size=110))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        cron = parse_cron(text, field="cron")
    except Invalid:
        return
    assert parse_cron(cron.expression, field="cron") == cron


# --- which days -----------------------------------------------------------------------------------
def test_days_match_as_in_debian(subtests: pytest.Subtests) -> None:
    for expression, days in (
        ("0 0 * * MON", [2, 9, 16, 23, 30]),
        ("0 0 * * 0", [1, 8, 15, 22, 29]),
        ("0 0 * * 7", [1, 8, 15, 22, 29]),
        ("0 0 13 * *", [13]),
        # Two fields without a star: either of them will do.
        ("0 0 13 * 5", [6, 13, 20, 27]),
        ("0 0 1-31 * 5", [*range(1, 32)]),
        # One of them with a star: both must match.
        ("0 0 */10 * 7", [1]),
        ("0 0 1-7 * */7", [1]),
        ("0 0 L * *", [31]),
        ("0 0 LW * *", [31]),
        ("0 0 * * 5L", [27]),
        ("0 0 * * 2#3", [17]),
        ("0 0 * * 1#5", [30]),
        ("0 0 * 4-12 *", []),
    ):
        with subtests.test(expression=expression):
            found = due(expression, "UTC", "2026-03-01", "2026-04-01")
            assert found == [f"{day:02} 00:00" for day in days]


def test_rare_day_is_found_from_afar() -> None:
    """29 February on a Sunday: 2032, then none in 2060's turn is missed."""
    plan = Recurrence(
        rule=parse_cron("0 12 29 2 */7", field="cron"),
        zone=parse_zone("UTC"),
        start_at=datetime(2026, 3, 2, tzinfo=UTC),
    )

    found = list(islice(plan.after(plan.start_at), 5))

    assert [instant.year for instant in found] == [2032, 2060, 2088, 2128, 2156]
    assert list(plan.before(found[-1])) == found[::-1]


# --- changes of the clocks ------------------------------------------------------------------------
def test_change_of_the_clocks_in_new_york(subtests: pytest.Subtests) -> None:
    """I21, S0.11: the table of how libraries fare at daylight saving."""
    for expression, first, last, expected in (
        # 8 March, 07:00 UTC: 02:00 becomes 03:00. Named times come at the change, and once.
        ("30 2 * * *", "2026-03-07T06", "2026-03-09T12", ["07 07:30", "08 07:00", "09 06:30"]),
        ("15,45 2 * * *", "2026-03-08T06", "2026-03-09T06:30", ["08 07:00", "09 06:15"]),
        ("0 2-4 * * *", "2026-03-08T06", "2026-03-08T12", ["08 07:00", "08 08:00"]),
        # What follows the clock skips what the clock skips.
        ("*/30 2 * * *", "2026-03-08T06", "2026-03-09T06:30", ["09 06:00"]),
        ("30 * * * *", "2026-03-08T06", "2026-03-08T08", ["08 06:30", "08 07:30"]),
        ("*/30 * * * *", "2026-03-08T06:30", "2026-03-08T08", ["08 06:30", "08 07:00", "08 07:30"]),
        # 1 November, 06:00 UTC: 02:00 becomes 01:00. Named times come with the first pass.
        ("30 1 * * *", "2026-10-31T06", "2026-11-02T12", ["01 05:30", "02 06:30"]),
        # What follows the clock comes with both.
        (
            "*/30 1 * * *",
            "2026-11-01T04",
            "2026-11-02T06",
            ["01 05:00", "01 05:30", "01 06:00", "01 06:30"],
        ),
        ("30 * * * *", "2026-11-01T05", "2026-11-01T08", ["01 05:30", "01 06:30", "01 07:30"]),
    ):
        with subtests.test(expression=expression, first=first):
            assert due(expression, "America/New_York", first, last) == expected
