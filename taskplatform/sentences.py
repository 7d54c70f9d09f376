"""The acts of people as sentences: `admin cancelled jobs A, B and 3 more`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import Formatter
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import filled, listed, shown_text
from apps.common.admin.html import link, page_url
from apps.common.admin.who import Known
from apps.dispatch.rules.names import is_group
from apps.journal.admin import words
from apps.journal.admin.entries import shown_value
from apps.journal.admin.subjects import MAX_NAME, Names, model_of, page_of
from apps.journal.models import JournalEntry, Source

MAX_NAMED = 3
# What rows are called that have no page or whose table is called otherwise, one and many, by page
# or source.
_KINDS = {
    "auth_user": (_("account"), _("accounts")),
    "auth_group": (_("role"), _("roles")),
    Source.WORKER: (_("worker"), _("workers")),
}
_PERSON_OR_GROUP = "dispatch_executor"
_PEOPLE, _GROUPS = (_("person"), _("people")), (_("group"), _("groups"))


def sentence(
    entries: Sequence[JournalEntry], names: Names, whom: Mapping[str, Known], shows_payload: bool
) -> SafeString:
    """What equal acts on these subjects did, without who did it: `cancelled job A`, `changed
    priority of job A from 0 to 55`; the label of what people do not cause."""
    entry = entries[0]
    event, facts = words.event_of(entry.event), _facts(entry)
    what = _what(entries, names, whom)
    told = _told(event, facts)
    # Entries of earlier releases lack facts that are told by now.
    if not event.said or told - facts.keys():
        return filled(gettext("{event}: {what}"), event=event.words, what=what)

    def shown(values: Mapping[str, Any], name: str) -> SafeString:
        return format_html("<bdi>{}</bdi>", shown_value(name, values, whom, shows_payload) or "–")

    if not tells_changes(entry):
        values = {name: shown(facts, name) for name in told}
        return filled(event.sentence(facts), what=what, **values)
    before, after = facts["before"], facts["after"]
    *fields, last = sorted({*before, *after})
    if not fields:
        text = gettext("changed {field} of {what} from {old} to {new}")
        old, new = shown(before, last), shown(after, last)
        return filled(text, field=words.name_of(last), what=what, old=old, new=new)
    named = listed(map(words.name_of, fields))
    text = gettext("changed {fields} and {last} of {what}")
    return filled(text, fields=named, last=words.name_of(last), what=what)


def changes(
    entry: JournalEntry, whom: Mapping[str, Known], shows_payload: bool
) -> list[tuple[str, str, str]]:
    """What the sentence names without saying from what to what: the field, its old value and its
    new one; [] where there is one, which is part of the sentence."""
    if not tells_changes(entry):
        return []
    before, after = ((entry.data or {})[side] for side in ("before", "after"))
    fields = sorted({*before, *after})

    def shown(values: Mapping[str, Any], name: str) -> str:
        return shown_value(name, values, whom, shows_payload) or "–"

    found = [(words.name_of(name), shown(before, name), shown(after, name)) for name in fields]
    return found if len(found) > 1 else []


def told_by(entry: JournalEntry) -> str:
    """What the sentence tells besides its subjects; equal in acts that one sentence tells."""
    facts = _facts(entry)
    if tells_changes(entry):
        return repr((facts["before"], facts["after"]))
    told = sorted(_told(words.event_of(entry.event), facts))
    return repr([facts.get(name) for name in told])


def tells_changes(entry: JournalEntry) -> bool:
    """Whether the sentence tells what changed, from what to what."""
    data = entry.data or {}
    is_edit = words.event_of(entry.event).said is words.CHANGED
    return is_edit and bool(data.get("before")) and bool(data.get("after"))


def _told(event: words.Event, facts: Mapping[str, Any]) -> set[str]:
    """The facts of an entry that its sentence names."""
    fields = (field for _text, field, *_rest in Formatter().parse(event.sentence(facts)))
    return {field for field in fields if field and field != "what"}


def _facts(entry: JournalEntry) -> dict[str, Any]:
    """All facts of the entry by name, also those of a row before or after it was changed."""
    data = entry.data or {}
    return {**(data.get("before") or {}), **(data.get("after") or {}), **data}


# --- its subjects ---------------------------------------------------------------------------------
def _what(entries: Sequence[JournalEntry], names: Names, whom: Mapping[str, Known]) -> SafeString:
    """`jobs A, B, C and 2 more`: the kind of the subjects and their names, equal ones once."""
    named: dict[str, SafeString] = {}
    for entry in entries:
        name, url = _subject(entry, names, whom)
        named.setdefault(name, link(url, format_html("<bdi>{}</bdi>", name)))
        if len(named) == MAX_NAMED:
            break
    shown = _joined(named.values())
    if more := len(entries) - len(named):
        text = ngettext("{names} and {more} more", "{names} and {more} more", more)
        shown = filled(text, names=shown, more=f"{more:,}")
    kind = _kind(entries)
    return filled(gettext("{kind} {names}"), kind=kind, names=shown) if kind else shown


def _joined(texts: Iterable[SafeString]) -> SafeString:
    return format_html_join(listed(("", "")), "{}", ((text,) for text in texts))


def _kind(entries: Sequence[JournalEntry]) -> str:
    """What subjects of this kind are called; "" where nothing tells."""
    page = page_of(entries[0]) or entries[0].source
    are_groups = {is_group(entry.executor) for entry in entries}
    if page == _PERSON_OR_GROUP and len(are_groups) == 1:
        one, many = _GROUPS if are_groups.pop() else _PEOPLE
    elif page in _KINDS:
        one, many = _KINDS[page]
    elif page in Source.values:
        return ""
    else:
        meta = model_of(page)._meta
        one, many = meta.verbose_name, meta.verbose_name_plural
    return str(one if len(entries) == 1 else many)


def _subject(entry: JournalEntry, names: Names, whom: Mapping[str, Known]) -> tuple[str, str]:
    """Return what people call it, and its page if it has one and the person may see it."""
    page, number = page_of(entry), entry.subject_id
    if (page, number) in names:
        return names[page, number], page_url(page, number)
    if person := whom.get(entry.executor):
        return shown_text(person.title or person.name, limit=MAX_NAME), person.url
    facts = _facts(entry)
    name = facts.get("title") or facts.get("name") or entry.executor or entry.worker
    if not name:
        # Tables that share a source call their rows `channel:1`.
        name = number if entry.type_or_task.endswith(f":{number}") else entry.type_or_task
    return shown_text(str(name or number), limit=MAX_NAME), ""
