"""Executors as CSV: S0.5, S0.17: a trial run first, all rows or none, and no formulas."""

from __future__ import annotations

import codecs
import csv
import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.common.admin.csv_text import cell_text, plain_cell
from apps.dispatch.models import Executor
from apps.dispatch.services.executors import member_names
from apps.journal.models import JournalEntry
from tests import factories
from tests.pages import csv_of, form_of, text_of
from tests.statements import locking, sent_by

LIST = "/admin/dispatch/executor/"

GOOD = "name,title,enabled,groups\r\ngid_n,North,yes,\r\nuid_a,Ann,1,gid_n\r\nuid_b,,no,gid_n\r\n"


def test_trial_run_changes_nothing_and_the_import_what_it_announced(admin_client: Client) -> None:
    factories.user("uid_b")
    entries = JournalEntry.objects.count()
    trial = admin_client.post(f"{LIST}import/", {"text": GOOD})
    assert "2 new, 1 changed, 0 unchanged" in text_of(trial)
    assert Executor.objects.count() == 1
    assert JournalEntry.objects.count() == entries
    form = form_of(trial, "confirmed")
    answer = admin_client.post(f"{LIST}import/", form)
    assert answer.status_code == 302
    assert member_names(Executor.objects.get(name="gid_n")) == ["uid_a", "uid_b"]
    assert Executor.objects.get(name="uid_a").title == "Ann"
    assert not Executor.objects.get(name="uid_b").enabled
    again = admin_client.post(f"{LIST}import/", {"text": GOOD})
    assert "0 new, 0 changed, 3 unchanged" in text_of(again)


def test_trial_locks_nothing_that_people_at_work_wait_for(admin_client: Client) -> None:
    factories.group("gid_old", ["uid_b", "uid_c"])
    text = f"{GOOD}uid_c,Cat,no,gid_n gid_old\r\nuid_a,Anna,,gid_old\r\n"
    trials: list[Any] = []
    statements = sent_by(lambda: trials.append(admin_client.post(f"{LIST}import/", {"text": text})))
    assert "2 new, 3 changed, 0 unchanged" in text_of(trials[0])
    assert locking(statements) == []
    admin_client.post(f"{LIST}import/", form_of(trials[0], "confirmed"))
    assert Executor.objects.get(name="uid_a").title == "Anna"
    assert member_names(Executor.objects.get(name="gid_n")) == ["uid_a", "uid_b", "uid_c"]
    assert member_names(Executor.objects.get(name="gid_old")) == ["uid_a", "uid_b", "uid_c"]


def test_file_as_long_as_may_be_is_confirmed_as_browsers_send_it(admin_client: Client) -> None:
    rows = "name\nuid_a\n"
    file = SimpleUploadedFile("e.csv", (rows + "\n" * (1_048_576 - len(rows))).encode())
    form = form_of(admin_client.post(f"{LIST}import/", {"file": file}), "confirmed")
    assert "\r\n" in form["text"]
    assert admin_client.post(f"{LIST}import/", form).status_code == 302
    assert Executor.objects.get().name == "uid_a"


def test_every_wrong_row_is_shown_and_none_is_imported(admin_client: Client) -> None:
    """With all its mistakes at once."""
    rows = ["uid_ok,,,", "bob,maybe,,", "uid_y,,,gid_none", "gid_g,,,"]
    rows.append(f"uid_z,,{'x' * 201},uid_ok gid_none")
    text = "\n".join(["name,enabled,title,groups", *rows])
    for data in ({"text": text}, {"text": text, "confirmed": "yes"}):
        page: Any = admin_client.post(f"{LIST}import/", data)
        assert "3 rows cannot be imported, so nothing was changed." in text_of(page)
        refused = {row.line: "\n".join(row.errors) for row in page.context["refused"]}
        for line, message in (
            (3, "name: 'bob' is not the name of a person or group"),
            (3, "enabled: 'maybe' is neither yes nor no"),
            (4, "groups: There is no person or group 'gid_none'."),
            (6, "groups: uid_ok is a person, not a group."),
            (6, "groups: There is no person or group 'gid_none'."),
            (6, "title: "),
        ):
            assert message in refused[line]
        assert not Executor.objects.exists()
        assert not JournalEntry.objects.exists()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "Choose a file or paste its text."),
    ({"text": "\n\n"}, "Choose a file or paste its text."),
    ({"text": ",,\n"}, "There are no rows"),
    ({"text": "uid\nuid_a\n"}, "There is no column 'uid'; the first line names name"),
    ({"text": "title\nAnn\n"}, "The column name is missing"),
    ({"text": "name,name\nuid_a,uid_b\n"}, "The column name is there twice"),
    ({"text": "name,password\nuid_a,x\n"}, "There is no column 'password'"),
    ({"text": "name\nuid_a,more\n"}, "Row 2 has 2 cells"),
    ({"text": "name,title\nuid_a\n"}, "Row 2 has 1 cell, and the first line 2."),
    ({"text": 'name\n"uid_a\n'}, "This is not CSV"),
    ({"text": "name\nuid_\0\n"}, "Null characters"),
    ({"text": "name\n" + "x" * 140_000 + "\n"}, "This is not CSV"),
    ({"text": "name\n" + "uid_a\n" * 1001}, "At most 1000 rows"),
    ({"file": SimpleUploadedFile("e.csv", b"name\n\xff\n")}, "not UTF-8"),
    ({"file": SimpleUploadedFile("e.csv", b"")}, "empty"),
    ({"file": SimpleUploadedFile("e.csv", b"x" * 1_048_577)}, "split it"),
]


def test_what_is_no_list_of_executors_is_refused(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for data, message in REFUSED:
        with subtests.test(message=message, data=str(data)[:40]):
            page = admin_client.post(f"{LIST}import/", data)
            assert page.status_code == 200
            assert message in text_of(page)
            assert not Executor.objects.exists()


FORMULAS = ["=1+2", "+1", "-1", "@x", "\t=1", " =1", "'=1", '"=1', "=1 "]
FORMULAS += ["＝1", "＋1", "－1", "＠x"]
ODD = [" Ann ", "a\r\nb", "a\n"]


def test_export_holds_no_formula_and_can_be_imported_again(admin_client: Client) -> None:
    """Nor does a title lose its blanks and line ends on that way."""
    titles = {f"uid_{n:02}": title for n, title in enumerate([*FORMULAS, *ODD])}
    for name, title in titles.items():
        factories.user(name, title=title)
    answer = admin_client.get(f"{LIST}export/")
    assert answer["Content-Disposition"] == 'attachment; filename="people-and-groups.csv"'
    cells = {row["name"]: row["title"] for row in csv_of(answer)}
    assert cells.keys() == titles.keys()
    for name, title in titles.items():
        if title in FORMULAS:
            assert cells[name] == f"'{title}"
            assert cell_text(cells[name]) == title
    trial = admin_client.post(f"{LIST}import/", {"text": answer.content.decode()})
    assert "0 new, 0 changed, 16 unchanged" in text_of(trial)


def test_export_opens_as_utf_8_in_excel_and_comes_in_again_with_and_without_its_mark(
    admin_client: Client,
) -> None:
    factories.user("uid_a", title="王芳")
    exported = admin_client.get(f"{LIST}export/").content
    assert exported.startswith(codecs.BOM_UTF8 + b'"name"')
    plain = exported.removeprefix(codecs.BOM_UTF8)
    for sent in (
        {"file": SimpleUploadedFile("e.csv", exported)},
        {"file": SimpleUploadedFile("e.csv", plain)},
        {"text": exported.decode()},
        {"text": plain.decode()},
    ):
        page = admin_client.post(f"{LIST}import/", sent)
        assert "0 new, 0 changed, 1 unchanged" in text_of(page)


def test_file_of_a_spreadsheet_in_another_language_comes_in_as_well(admin_client: Client) -> None:
    factories.user("uid_a", title="Wang; Fang, 3\t4")
    factories.user("uid_b", enabled=False)
    lines = csv.reader(io.StringIO(admin_client.get(f"{LIST}export/").content.decode("utf-8-sig")))
    rows = list(lines)
    for divider in ",;\t":
        text = io.StringIO()
        csv.writer(text, delimiter=divider).writerows(rows)
        page = admin_client.post(f"{LIST}import/", {"text": text.getvalue()})
        assert "0 new, 0 changed, 2 unchanged" in text_of(page), divider


def test_plain_text_is_exported_as_it_is() -> None:
    assert [plain_cell(each) for each in (True, False, 1, 0, None)] == ["yes", "no", "1", "0", ""]
    for text in ("Ann", "a=b", "5", "", "O'Neil"):
        assert plain_cell(text) == cell_text(text) == text


def test_export_follows_the_filters_of_the_list(admin_client: Client) -> None:
    factories.group("gid_a", members=["uid_x"])
    factories.user("uid_y")
    rows = csv_of(admin_client.get(f"{LIST}export/?kind=user"))
    assert [(row["name"], row["groups"]) for row in rows] == [("uid_x", "gid_a"), ("uid_y", "")]
    assert admin_client.get(f"{LIST}export/?nope=1").status_code == 302
