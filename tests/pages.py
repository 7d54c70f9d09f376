"""What a browser would make of a page: the form it would send, and the text a person reads."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from django.template.response import SimpleTemplateResponse
from django.urls import reverse
from lxml import etree

from apps.common.api import problems
from taskplatform.site import PlatformAdminSite

_ICON = re.compile(r"<span[^>]*material-symbols-outlined[^>]*>[^<]*</span>")
# Three words in a row, as names and JSON have them nowhere.
# http_request, django_task, and the platform's own handlers: nobody translates them.
_NAME = re.compile(r"\b[a-z]+(?:[._][a-z]+)+\b|\b(?:bulk|deliver|echo)\b")
_ENGLISH = re.compile(r"[A-Za-z][a-z']+,?(?: [a-z']+[,;.]?){2,}")
_JOINED = re.compile(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]")
_DATE = re.compile(r"\d+[年月日]")
_SILENT = {"submit", "button", "reset", "image", "file"}
_CHECKED = {"checkbox", "radio"}
_NO_WORDS = "script|style|textarea"


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


def _document(page: Any) -> etree._Element:
    return _parsed(page.content.decode())


def _parsed(text: str) -> etree._Element:
    """Without the classes that lxml.html has for each kind of element: they take longest."""
    return etree.HTML(text)


def _pieces(element: etree._Element, *, without: str = "script|style") -> list[str]:
    """The texts between tags, but those of scripts and styles."""
    unseen = " or ".join(f"self::{tag}" for tag in without.split("|"))
    texts = element.xpath(f".//text()[not(parent::*[{unseen}])]", smart_strings=False)
    return [text.strip() for text in texts if text.strip()]


def _sent(field: etree._Element) -> list[str]:
    """The values that a browser sends of a field."""
    if field.tag == "textarea":
        # Browsers drop one line end after the tag and send the others as CR LF.
        text = (field.text or "").removeprefix("\n").replace("\r\n", "\n")
        return [text.replace("\n", "\r\n")]
    if field.tag == "select":
        options = field.findall(".//option")
        chosen = [each for each in options if "selected" in each.attrib]
        if not chosen and "multiple" not in field.attrib:
            chosen = options[:1]
        return [each.get("value", "") for each in chosen]
    kind = field.get("type", "text")
    if kind in _SILENT or (kind in _CHECKED and "checked" not in field.attrib):
        return []
    return [field.get("value", "on" if kind == "checkbox" else "")]


def _fields(form: etree._Element) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for field in form.iter("input", "textarea", "select"):
        name = field.get("name")
        # A browser sends those of another form with that one.
        is_own = field.get("form", form.get("id", "")) == form.get("id", "")
        if name and is_own and "disabled" not in field.attrib:
            fields.setdefault(name, []).extend(_sent(field))
    return {name: values for name, values in fields.items() if values}


def form_of(page: Any, holding: str) -> dict[str, Any]:
    """What a browser would send of the form that has a field of that name, untouched."""
    for form in _document(page).iter("form"):
        fields = _fields(form)
        if holding in fields:
            return {
                name: values[0] if len(values) == 1 else values for name, values in fields.items()
            }
    raise AssertionError(f"no form on the page has a field {holding!r}")


def forms_to(page: Any, address: str) -> list[dict[str, Any]]:
    """What a browser would send of each form with that address, by its first button."""
    found = []
    for form in _document(page).iter("form"):
        if form.get("action") == address:
            button = next(each for each in form.iter("button") if each.get("name"))
            fields = {name: values[0] for name, values in _fields(form).items()}
            found.append({**fields, str(button.get("name")): button.get("value", "")})
    return found


class Cell(NamedTuple):
    """A cell of a table: its words, and where its first link leads."""

    text: str
    url: str


def tables_of(page: Any) -> list[list[list[Cell]]]:
    """The tables of the page as rows of cells."""
    return [
        [[_cell(cell) for cell in row.iterchildren("th", "td")] for row in table.iter("tr")]
        for table in _document(page).iter("table")
    ]


def _cell(cell: etree._Element) -> Cell:
    link = next(cell.iter("a"), None)
    return Cell(" ".join(_pieces(cell)), "" if link is None else link.get("href", ""))


def text_of(page: Any) -> str:
    """The words of the page, without markup and scripts, in one line."""
    return " ".join(" ".join(_pieces(_document(page), without=_NO_WORDS)).split())


def english_in(page: Any) -> list[str]:
    """What stands in English on a page that should be in Chinese: words in a row, no names."""
    document = _parsed(_ICON.sub("", page.content.decode()))
    return _ENGLISH.findall(_NAME.sub("", " ".join(_pieces(document, without=_NO_WORDS))))


def joined_in(page: Any) -> list[str]:
    """Texts in which a Chinese character stands beside a Latin letter or a digit, without dates."""
    document = _document(page)
    shown = document.xpath("//@title | //@placeholder | //@aria-label", smart_strings=False)
    texts = [*_pieces(document, without=_NO_WORDS), *shown]
    return [text for text in texts if _JOINED.search(_DATE.sub(" ", text))]


def inline_code_of(page: Any) -> list[str]:
    """Scripts and handlers written into the page, which its policy would refuse to run."""
    document = _document(page)
    scripts = document.xpath("//script[not(@src) and not(@type='application/json')]")
    handlers = document.xpath("//@*[starts-with(name(), 'on')]")
    links = document.xpath("//@href | //@src | //@action")
    return [
        *(script.text or "" for script in scripts),
        *(f"<{each.getparent().tag} {each.attrname}>" for each in handlers),
        *(
            f"<{each.getparent().tag} {each.attrname}={each}>"
            for each in links
            if each.strip().lower().startswith("javascript:")
        ),
    ]
