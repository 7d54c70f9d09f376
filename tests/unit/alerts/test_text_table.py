"""Tables as plain text."""

from __future__ import annotations

from apps.alerts.rules.text_table import text_table


def test_figures_stand_below_the_end_of_their_heading() -> None:
    rows = [["Type", "Ended", "p95"], ["mail", "12", "1.5 s"], ["a-long-name", "1,204", "–"]]
    assert text_table(rows).splitlines() == [
        "Type         Ended    p95",
        "mail            12  1.5 s",
        "a-long-name  1,204      –",
    ]


def test_chinese_letters_take_two_columns() -> None:
    assert text_table([["类型", "数"], ["mail", "12"]]).splitlines() == ["类型  数", "mail  12"]
