"""What a browser would make of a page: the form it would send, and the text a person reads."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any, NamedTuple

import pytest
from django.template.response import SimpleTemplateResponse
from django.urls import reverse

from apps.common.api import problems
from taskplatform.site import PlatformAdminSite

_ICON = re.compile(r"<span[^>]*material-symbols-outlined[^>]*>[^<]*</span>")
# Three words in a row, as names and JSON have them nowhere.
# http_request, django_task, and the platform's own handlers: nobody translates them.
_NAME = re.compile(r"\b[a-z]+(?:[._][a-z]+)+\b|\b(?:bulk|deliver|echo)\b")
_ENGLISH = re.compile(r"[A-Za-z][a-z']+,?(?: [a-z']+[,;.]?){2,}")
_SILENT = {"submit", "button", "reset", "image", "file"}


@contextmanager
def nothing_drawn() -> Iterator[None]:
    """Pages without content and frame, for what is decided before: drawing them takes longest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimpleTemplateResponse, "rendered_content", "")
        patch.setattr(PlatformAdminSite, "each_context", lambda site, request: {})
        patch.setattr(problems, "_is_framed", lambda request, error: False)
        yield


def change_url(row: Any) -> str:
    """The address of the page of the row."""
    return reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])


def page_of(client: Any, row: Any) -> Any:
    return client.get(change_url(row))


def rows_of(client: Any, url: str, **query: str) -> list[Any]:
    """The rows of a list, which is not drawn."""
    with nothing_drawn():
        return list(client.get(url, query).context_data["cl"].result_list)


def csv_of(answer: Any) -> list[dict[str, str]]:
    """The lines of a file by the names of its columns."""
    text = io.StringIO(answer.content.decode("utf-8-sig"), newline="")
    return list(csv.DictReader(text))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, list[str]]] = []
        self.scripts: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []
        self._field: dict[str, list[str]] | None = None
        self._id = ""
        self._select: tuple[str, bool, list[tuple[str, bool]]] | None = None
        self._textarea: tuple[str, list[str]] | None = None
        self._script: list[str] | None = None
        self._is_style = self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.handlers += [f"<{tag} {name}>" for name in given if name.startswith("on")]
        self.handlers += [
            f"<{tag} {name}={value}>"
            for name, value in given.items()
            if name in {"href", "src", "action"} and value.strip().lower().startswith("javascript:")
        ]
        if tag == "form":
            self._field, self._id = {}, given.get("id", "")
            self.forms.append(self._field)
        elif tag == "style":
            self._is_style = True
        elif tag == "script" and "src" not in given:
            self._script = []
            self._is_data = given.get("type") == "application/json"
        elif self._field is None or "disabled" in given:
            return
        elif given.get("form", self._id) != self._id:
            # A browser sends it with that other form.
            return
        elif tag == "input" and given.get("name") and given.get("type") not in _SILENT:
            if given.get("type") not in {"checkbox", "radio"} or "checked" in given:
                default = "on" if given.get("type") == "checkbox" else ""
                self._add(given["name"], given.get("value", default))
        elif tag == "textarea" and given.get("name"):
            self._textarea = (given["name"], [])
        elif tag == "select" and given.get("name"):
            self._select = (given["name"], "multiple" in given, [])
        elif tag == "option" and self._select is not None:
            self._select[2].append((given.get("value", ""), "selected" in given))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._field = None
        elif tag == "style":
            self._is_style = False
        elif tag == "script" and self._script is not None:
            if not self._is_data:
                self.scripts.append("".join(self._script))
            self._script = None
        elif tag == "textarea" and self._textarea is not None:
            name, parts = self._textarea
            # Browsers drop one line end after the tag and send the others as CR LF.
            text = "".join(parts).removeprefix("\n").replace("\r\n", "\n")
            self._add(name, text.replace("\n", "\r\n"))
            self._textarea = None
        elif tag == "select" and self._select is not None:
            name, is_multiple, options = self._select
            chosen = [value for value, is_selected in options if is_selected]
            if not chosen and options and not is_multiple:
                chosen = [options[0][0]]
            for value in chosen:
                self._add(name, value)
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._textarea is not None:
            self._textarea[1].append(data)
        elif self._script is not None:
            self._script.append(data)
        elif data.strip() and not self._is_style:
            self.text.append(data.strip())

    def _add(self, name: str, value: str) -> None:
        assert self._field is not None
        self._field.setdefault(name, []).append(value)


def _read(page: Any) -> _Reader:
    reader = _Reader()
    reader.feed(page.content.decode())
    reader.close()
    return reader


def form_of(page: Any, holding: str) -> dict[str, Any]:
    """What a browser would send of the form that has a field of that name, untouched."""
    for form in _read(page).forms:
        if holding in form:
            return {
                name: values[0] if len(values) == 1 else values for name, values in form.items()
            }
    raise AssertionError(f"no form on the page has a field {holding!r}")


class _Tables(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[Cell]]] = []
        self._text: list[str] | None = None
        self._url = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"th", "td"}:
            self._text, self._url = [], ""
        elif tag == "a" and not self._url:
            self._url = dict(attrs).get("href") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag in {"th", "td"} and self._text is not None:
            self.tables[-1][-1].append(Cell(" ".join(self._text), self._url))
            self._text = None

    def handle_data(self, data: str) -> None:
        if self._text is not None and data.strip():
            self._text.append(data.strip())


class Cell(NamedTuple):
    """A cell of a table: its words, and where its first link leads."""

    text: str
    url: str


def tables_of(page: Any) -> list[list[list[Cell]]]:
    """The tables of the page as rows of cells."""
    reader = _Tables()
    reader.feed(page.content.decode())
    reader.close()
    return reader.tables


def text_of(page: Any) -> str:
    """The words of the page, without markup and scripts, in one line."""
    return " ".join(" ".join(_read(page).text).split())


def english_in(page: Any) -> list[str]:
    """What stands in English on a page that should be in Chinese: words in a row, no names."""
    reader = _Reader()
    reader.feed(_ICON.sub("", page.content.decode()))
    return _ENGLISH.findall(_NAME.sub("", " ".join(reader.text)))


def inline_code_of(page: Any) -> list[str]:
    """Scripts and handlers written into the page, which its policy would refuse to run."""
    reader = _read(page)
    return [*reader.scripts, *reader.handlers]
