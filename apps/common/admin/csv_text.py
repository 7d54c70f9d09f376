"""CSV text: exported cells hold no formulas, and every mistake names its row."""

from __future__ import annotations

import csv
import io
import math
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.text import slugify
from django.utils.translation import gettext, gettext_noop, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminTextareaWidget

from apps.common.admin.display import translate
from apps.common.messages import Message

Answer = TypeVar("Answer", bound=HttpResponseBase)

# The key of what a file has rows of.
ROWS_OF = "of"
# Without it Excel decodes the file with the code page of its machine.
BYTE_ORDER_MARK = "\ufeff"
MAX_ROWS = 1000
MAX_BYTES = 1_048_576
# How long the rows of a file are read and written.
MAX_SECONDS = 20.0
# Python's messages about text that is not CSV, marked for translation.
_CSV_ERRORS = (
    gettext_noop("unexpected end of data"),
    gettext_noop("',' expected after '\"'"),
    gettext_noop("';' expected after '\"'"),
    gettext_noop("'\t' expected after '\"'"),
    gettext_noop("field larger than field limit (131072)"),
)
# Characters that start a formula in spreadsheets, also after blanks and quotes and in full width.
_FORMULA = re.compile(r"[\s'\"]*[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"-?[0-9]{1,19}")


class FileTooLarge(Exception):
    """The rows are too many or too large for one file, or take too long."""


class CsvFile:
    """The text of a file as it grows; FileTooLarge once that takes longer than MAX_SECONDS, or it
    has more than `most` letters."""

    def __init__(self, header: Iterable[str], *, most: float = math.inf) -> None:
        self._until, self._most = time.monotonic() + MAX_SECONDS, most
        self._lines = io.StringIO()
        self._writer = csv.writer(self._lines, quoting=csv.QUOTE_ALL)
        self._writer.writerow(header)

    def add(self, row: Iterable[Any]) -> None:
        self._writer.writerow(row)
        self.check()

    def check(self) -> None:
        """Also where no row was found for a while."""
        if time.monotonic() > self._until or self._lines.tell() > self._most:
            raise FileTooLarge

    @property
    def text(self) -> str:
        return self._lines.getvalue()


def plain_cell(value: object) -> str:
    """The value as a cell that no spreadsheet evaluates: formulas get a leading `'`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "" if value is None else str(value)
    is_number = isinstance(value, int) and _NUMBER.fullmatch(text)
    return f"'{text}" if _FORMULA.match(text) and not is_number else text


def cell_text(cell: str) -> str:
    """The text that `plain_cell` turned into the cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def read_cell(cell: str) -> str:
    """The text of a cell without surrounding blanks, its line ends as `\n`."""
    text = cell_text(cell.strip())
    return text.replace("\r\n", "\n").replace("\r", "\n")


def download(text: str, *, name: str, file: Mapping[str, Any]) -> HttpResponse:
    """The CSV as a file that Excel opens as UTF-8; `file` as in `as_file`."""
    answer = HttpResponse(BYTE_ORDER_MARK + text, content_type="text/csv; charset=utf-8")
    return as_file(answer, name=name, file=file)


def as_file(answer: Answer, *, name: str, file: Mapping[str, Any]) -> Answer:
    """The answer as a file of that name; `file` says for the journal what it has."""
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer.file = file  # type: ignore[attr-defined]
    return answer


def rows_of(model: type[models.Model], count: int) -> Mapping[str, Any]:
    """So many rows of a model, for the journal."""
    return {ROWS_OF: model._meta.label_lower, "rows": count}


def file_name(model: type[models.Model]) -> str:
    """The name of a file with rows of the model, in English for programs: `once-tasks.csv`."""
    with translation.override(None):
        return f"{slugify(str(model._meta.verbose_name_plural))}.csv"


class _Lines(forms.CharField):
    """Text whose line ends are one character each; browsers send two."""

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n")


class CsvForm(forms.Form):
    """A CSV file or its text; a valid form has its `rows`, each a dict by column.

    The first line names some of `columns` and all `needed` ones; `ignored` ones are allowed. Commas
    divide it, or the semicolons or tabs of spreadsheets in other languages.
    """

    file = forms.FileField(label=_("CSV file"), required=False, widget=UnfoldAdminFileFieldWidget())
    text = _Lines(
        label=_("or its text"),
        required=False,
        strip=False,
        max_length=MAX_BYTES,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8, "class": "json", "spellcheck": "false"}),
    )

    def __init__(
        self,
        *args: Any,
        columns: Sequence[str],
        needed: Collection[str] = (),
        ignored: Collection[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.columns, self.needed, self.ignored = columns, needed, ignored

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        file = cleaned.get("file")
        if file is not None:
            cleaned["text"] = self._decoded(file)
        if not (cleaned.get("text") or "").strip():
            raise ValidationError(gettext("Choose a file or paste its text."))
        if "\0" in cleaned["text"]:
            raise ValidationError(gettext("There are NUL characters in it; remove them."))
        self.rows = self._read(cleaned["text"])
        return cleaned

    @staticmethod
    def _decoded(file: Any) -> str:
        if file.size > MAX_BYTES:
            raise ValidationError(gettext("The file has more than %d bytes; split it.") % MAX_BYTES)
        try:
            text: str = file.read().decode()
        except UnicodeDecodeError as error:
            raise ValidationError(
                gettext("The file is not UTF-8 text; save it as such.")
            ) from error
        return text

    def _read(self, text: str) -> list[dict[str, str]]:
        try:
            plain = io.StringIO(text.lstrip(BYTE_ORDER_MARK), newline="")
            lines = list(csv.reader(plain, strict=True, delimiter=_divider(text)))
        except csv.Error as error:
            message = gettext("This is not CSV: %s.") % translate(Message(str(error)))
            raise ValidationError(message) from error
        lines = [line for line in lines if any(cell.strip() for cell in line)]
        if not lines:
            raise ValidationError(gettext("There are no rows in it."))
        headings = [heading.strip().lower() for heading in lines[0]]
        self._check_headings(headings)
        if len(lines) - 1 > MAX_ROWS:
            raise ValidationError(gettext("At most %d rows at once; split the file.") % MAX_ROWS)
        rows = []
        for number, line in enumerate(lines[1:], start=2):
            if len(line) != len(headings):
                raise ValidationError(
                    ngettext(
                        "Row %(number)d has %(cells)d cell, and the first line %(columns)d.",
                        "Row %(number)d has %(cells)d cells, and the first line %(columns)d.",
                        len(line),
                    )
                    % {"number": number, "cells": len(line), "columns": len(headings)}
                )
            cells = [read_cell(cell) for cell in line]
            rows.append(dict(zip(headings, cells, strict=True)))
        return rows

    def _check_headings(self, headings: list[str]) -> None:
        known = ", ".join(self.columns)
        for heading in headings:
            if heading not in self.columns and heading not in self.ignored:
                raise ValidationError(
                    gettext("There is no column %(name)s; the first line names %(columns)s.")
                    % {"name": repr(heading[:80]), "columns": known}
                )
            if headings.count(heading) > 1:
                raise ValidationError(gettext("The column %s is there twice.") % heading)
        for name in sorted(self.needed):
            if name not in headings:
                raise ValidationError(
                    gettext("The column %(name)s is missing; the first line names %(columns)s.")
                    % {"name": name, "columns": known}
                )


def _divider(text: str) -> str:
    """The sign that divides the cells; no name of a column has one of these."""
    first = text.strip().partition("\n")[0]
    return next((each for each in ",;\t" if each in first), ",")
