"""What pages show of values: secrets redact, foreign text harmless, bars that can be read out."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from apps.common.admin.display import (
    duration_of,
    plain_time,
    pretty_json,
    progress_bar,
    quota_bar,
    short_text,
    short_time,
    shown_text,
    shown_time,
)
from apps.common.admin.html import bullets, link, noted, table
from apps.common.admin.timeline import Moment, render_timeline
from apps.common.admin.who import initials, who
from apps.common.masking import MASK
from tests.frozen import FrozenClock
from tests.processes import ROOT

# A heart of flames, a key of a telephone, the flag of Scotland, a surname of Japan.
BELONG = (
    *("\u2764\ufe0f\u200d\U0001f525", "1\ufe0f\u20e3", "\u845b\U000e0100\u57ce"),
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
)


def test_no_character_between_two_letters_shows_nothing() -> None:
    """Those that Unicode has for formats, but for those before a number of such a script, and
    those that have a width and no ink, but for blanks."""
    visible = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}
    hidden = {
        0x2800,
        0x3164,
        0x115F,
        0x1160,
        0xFFA0,
        0x034F,
        0x17B4,
        0x17B5,
        *range(0xFE00, 0xFE10),
    }
    formats = {
        code
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
    }
    shapes = range(0x13430, 0x13440)
    for code in (formats | hidden | {*range(0xE0000, 0xE1000)}) - visible - {*shapes, 0x9, 0xA}:
        assert chr(code) not in shown_text(f"a{chr(code)}b"), hex(code)


def test_unseen_characters_are_spelled_out_and_long_text_is_cut(subtests: pytest.Subtests) -> None:
    for text, shown in (
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("abc\u202ecod.exe", "abc\\u202ecod.exe"),
        ("a\u200bb\ufeff\u2066", "a\\u200bb\\ufeff\\u2066"),
        ("a\rb\x00", "a\\u000db\\u0000"),
        # An astronaut, and a Persian word that needs a joint parted; both hide nothing.
        ("\U0001f469\U0001f3fd\u200d\U0001f680", "\U0001f469\U0001f3fd\u200d\U0001f680"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("ann\u200d", "ann\\u200d"),
        ("an\u200cn", "an\\u200cn"),
        ("\U0001f680\u200d", "\U0001f680\\u200d"),
        # Of what may belong to a sign only the first does.
        ("a\ufe0f\u200d\ufe0fb", "a\\ufe0f\\u200d\\ufe0fb"),
        ("\u2764\ufe0f\ufe0f\u200d", "\u2764\ufe0f\\ufe0f\\u200d"),
        ("1\ufe0f", "1\\ufe0f"),
        ("cut \ud83d", "cut \\ud83d"),
        ("\U000e0068\U000e0069", "\\U000e0068\\U000e0069"),
        *((kept, kept) for kept in BELONG),
        ("x" * 4001, "x" * 4000 + " … (1 more character)"),
        ("x" * 4002, "x" * 4000 + " … (2 more characters)"),
    ):
        with subtests.test(text=text):
            assert shown_text(text) == shown


def test_json_is_indented_escaped_and_cut(subtests: pytest.Subtests) -> None:
    for value, parts in (
        ({"a": "<script>"}, ["&lt;script&gt;"]),
        ({"é": "日本"}, ["é", "日本"]),
        ({"secret": "x"}, [MASK]),
        (["x" * 50_000], ["more characters"]),
    ):
        with subtests.test(value=value):
            html = pretty_json(value)
            assert html.startswith('<pre class="json">')
            assert "<script>" not in html
            assert len(html) < 25_000
            for part in parts:
                assert part in html


def test_quota_can_be_seen_and_read_out(subtests: pytest.Subtests) -> None:
    for handed, times, text, meaning in (
        (0, 6, "0 / 6", "0 of 6 handed out"),
        (6, 6, "6 / 6", "6 of 6 handed out"),
        (7, 6, "7 / 6", "7 of 6 handed out"),
        (0, 0, "0 / 0", "0 of 0 handed out"),
    ):
        with subtests.test(handed=handed, times=times):
            html = quota_bar(handed, times)
            assert text in html
            assert meaning in html
            assert ("quota-full" in html) is (handed >= 6)
            assert 'max="0"' not in html


def test_progress_stays_between_nothing_and_all(subtests: pytest.Subtests) -> None:
    for done, percent in ((0.0, 0), (0.333, 33), (1.0, 100), (7.0, 100), (-1.0, 0)):
        with subtests.test(done=done):
            html = progress_bar(done)
            assert f'value="{percent}"' in html
            assert f'aria-label="{percent} % done"' in html


def test_timeline_shows_each_moment_escaped_and_in_order(frozen_clock: FrozenClock) -> None:
    at = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    html = render_timeline(
        [
            Moment(at=at, text="Made", actor="<b>olga", reason="why & how", colour="info"),
            Moment(at=at, text="Ended", facts=[("took", "<i>")]),
        ]
    )
    assert html.index("Made") < html.index("Ended")
    assert "&lt;b&gt;olga" in html
    assert "why &amp; how" in html
    assert "&lt;i&gt;" in html
    assert 'datetime="2026-03-02T09:30:00Z"' in html
    assert "Nothing has happened yet." in render_timeline([])


def test_duration_is_shown_in_two_units_at_most(subtests: pytest.Subtests) -> None:
    for milliseconds, english, chinese in (
        (0, "0 s", "0 秒"),
        (999, "999 ms", "999 毫秒"),
        (1000, "1 s", "1 秒"),
        (1849, "1.8 s", "1.8 秒"),
        (9940, "9.9 s", "9.9 秒"),
        (9960, "10 s", "10 秒"),
        (59_940, "1 min", "1 分钟"),
        (139_000, "2 min 19 s", "2 分钟 19 秒"),
        (3_599_400, "59 min 59 s", "59 分钟 59 秒"),
        (3_605_000, "1 h", "1 小时"),
        (36 * 3_600_000 - 1000, "1 d 11 h", "1 天 11 小时"),
        (-90_000, "-1 min 30 s", "-1 分钟 30 秒"),
        (-500, "-500 ms", "-500 毫秒"),
    ):
        with subtests.test(milliseconds=milliseconds):
            assert duration_of(milliseconds) == english
            with translation.override("zh-hans"):
                assert duration_of(milliseconds) == chinese


def test_time_of_a_rule_shows_in_its_zone_too(subtests: pytest.Subtests) -> None:
    for zone, second in (
        ("UTC", "2026-11-23 20:00:00 UTC"),
        ("Europe/Berlin", "2026-11-23 21:00:00 UTC+1 Europe/Berlin"),
        ("Asia/Tokyo", "05:00:00 UTC+9 Asia/Tokyo"),
        ("Asia/Singapore", None),
    ):
        with subtests.test(zone=zone):
            with timezone.override("Asia/Shanghai"), translation.override("en"):
                html = shown_time(datetime(2026, 11, 23, 20, tzinfo=UTC), also=ZoneInfo(zone))
            _first, _note, rest = html.partition('<span class="cell-note faint">')
            assert rest == (f"{second}</span>" if second else "")


def test_time_at_the_end_of_the_calendar_is_shown_in_any_zone(subtests: pytest.Subtests) -> None:
    for zone, at in product(("Asia/Shanghai", "America/Lima", "UTC"), (datetime.max, datetime.min)):
        with subtests.test(zone=zone, at=at), timezone.override(zone):
            assert plain_time(at.replace(tzinfo=UTC)).startswith(f"{at.year:04}-")


# --- parts of pages -------------------------------------------------------------------------------
EVIL, ESCAPED = '<i>"', "&lt;i&gt;&quot;"


def test_parts_of_pages_escape_what_is_in_them(subtests: pytest.Subtests) -> None:
    for part, drawn in (
        (link(EVIL, EVIL, title=EVIL), f'<a class="text-link" href="{ESCAPED}" title="{ESCAPED}">'),
        (link("?a=1&b=2", EVIL, look=""), f'<a href="?a=1&amp;b=2">{ESCAPED}</a>'),
        (noted(EVIL, EVIL), f'{ESCAPED}<span class="cell-note faint">{ESCAPED}</span>'),
        (noted(EVIL, ""), ESCAPED),
        (
            table([EVIL], [[EVIL]]),
            f'<th scope="col">{ESCAPED}</th></tr></thead><tbody><tr><td data-label="{ESCAPED}">',
        ),
        (bullets([EVIL], tag="ol"), f'<ol class="plain-list"><li>{ESCAPED}</li></ol>'),
        (bullets([]), ""),
    ):
        with subtests.test(drawn=drawn):
            assert drawn in part
            assert EVIL not in part


def test_links_have_one_home() -> None:
    """But for rows of lists, the thousands of figures of a report, and mails, which lack styles."""
    modules = [*ROOT.glob("apps/**/*.py"), *ROOT.glob("taskplatform/**/*.py")]
    write = {path.relative_to(ROOT) for path in modules if re.search("<a[ {]", path.read_text())}
    assert sorted(map(str, write)) == [
        "apps/alerts/services/mailing.py",
        "apps/alerts/services/report_message.py",
        "apps/common/admin/html.py",
        "apps/common/admin/list_rows.py",
        "apps/reports/admin/report.py",
    ]


def test_short_times_say_no_more_than_is_needed(
    frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    frozen_clock.move_to(datetime(2026, 11, 26, 12, 0, tzinfo=UTC))
    for at, english, chinese in (
        (datetime(2026, 11, 26, 20, 10), "20:10", "20:10"),
        (datetime(2026, 11, 25, 19, 55), "Wed 19:55", "星期三 19:55"),
        (datetime(2026, 11, 20, 0, 0), "Fri 00:00", "星期五 00:00"),
        (datetime(2026, 11, 19, 23, 59), "19 Nov", "11月19日"),
        (datetime(2025, 11, 12, 1, 2), "12 Nov 2025", "2025年11月12日"),
        (datetime(2026, 12, 12, 9, 0), "12 Dec 09:00", "12月12日 09:00"),
    ):
        for language, text in (("en", english), ("zh-hans", chinese)):
            with subtests.test(at=at, language=language), translation.override(language):
                assert short_text(at.replace(tzinfo=UTC)) == text
                html = short_time(at.replace(tzinfo=UTC))
                assert f'datetime="{at:%Y-%m-%dT%H:%M:%S}Z"' in html
                assert "UTC" in html


def test_initials_are_latin_or_the_end_of_the_name(subtests: pytest.Subtests) -> None:
    for title, shown in (
        ("Grace Okafor", "GO"),
        ("王伟 Wang Wei", "WW"),
        ("Chloé", "C"),
        ("王小明", "小明"),
        ("", ""),
        ("🙂", "🙂"),
    ):
        with subtests.test(title=title):
            assert initials(title) == shown
    html = who("uid_x", '<b>"%s\u202e', url="/x")
    assert "&lt;b&gt;" in html and "\u202e" not in html and "<b>" not in html
