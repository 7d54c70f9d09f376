"""The one list of names whose values are secrets: MASKED_KEYS, and the properties of schemas that
say `"secret": true`.

A name of MASKED_KEYS is found as words of a longer name; one that a schema declares is the whole
name. `api_key`, `API-Key`, `apiKey` and `api key` are alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from apps.common.conf import conf
from apps.common.errors import Invalid
from apps.common.masking import spelling
from apps.common.masking.patterns import Patterns
from apps.common.messages import Message as _
from apps.common.ttl_cache import TTLCache

Schemas = Callable[[], Iterable[Any]]

# How long a process goes by what it has read, as with the settings of types.
SECONDS = 1.0
# The letters of all names that schemas may declare. All texts are searched for all names by regular
# expressions: MariaDB takes none that is much longer, and Python needs a second to make it ready.
MAX_LETTERS = 1000
MAX_NAME = 64
# Keywords of a schema whose values are no schemas.
_VALUES = {"const", "enum", "default", "examples", "required", "dependentRequired"}
_DEFINITIONS = {"$defs", "definitions"}

_sources: list[Schemas] = []
# Reading takes a tenth of the time at most, whatever there is to be read.
_declared: TTLCache[frozenset[str]] = TTLCache(SECONDS, times_as_long=10)
# The names that were read last, however old.
_latest: frozenset[str] = frozenset()


def declared_in(schemas: Schemas) -> None:
    """Take further names from these schemas, which are read again and again."""
    _sources.append(schemas)


def forget_declared() -> None:
    """Read the schemas anew: one has changed in this process."""
    _declared.forget()


def learn_declared() -> None:
    """Read the schemas, unless that was just done: lines of the log are masked by what the process
    has read last."""
    _declared.get("", _read)


def check_declared(schema: Any, *, field: str) -> None:
    """Invalid when the schema declares names that are too long, or too many with all others."""
    known = _read() if (wanted := secret_properties(schema)) else frozenset[str]()
    new = wanted - known
    if too_long := sorted(name for name in new if len(name) > MAX_NAME):
        raise Invalid.field(
            field,
            _(
                'The property {name} is too long for one that is "secret": true; use at most '
                "{limit} characters.",
                name=too_long[0][:MAX_NAME] + "…",
                limit=MAX_NAME,
            ),
        )
    letters = sum(map(spelling.weight, new | known))
    if new and letters > MAX_LETTERS:
        raise Invalid.field(
            field,
            _(
                'The names of all properties that are "secret": true would have {letters} letters '
                "together, and {limit} is the most, where one that is not of ASCII counts as "
                "{others}; use names that are declared already, or put such properties into an "
                "object that is secret as a whole.",
                letters=letters,
                limit=MAX_LETTERS,
                others=spelling.OTHER_LETTERS,
            ),
        )


def patterns() -> Patterns:
    """The patterns that hide secrets, by the present names."""
    return _made(_declared.get("", _read))


def known_patterns() -> Patterns:
    """The patterns by the names that were read last, for callers that cannot ask the database."""
    return _made(_latest)


def is_secret(key: str) -> bool:
    """Whether values under this key are secrets. `tokens`, `pinned`, `spinning` and
    `session_count` are none."""
    return patterns().is_name(key)


def _made(declared: frozenset[str]) -> Patterns:
    return _compiled(tuple(conf.MASKED_KEYS), declared)


_compiled = functools.lru_cache(maxsize=16)(Patterns)


def _read() -> frozenset[str]:
    global _latest
    found = (secret_properties(schema) for schemas in _sources for schema in schemas())
    _latest = frozenset[str]().union(*found)
    return _latest


def secret_properties(schema: Any) -> set[str]:
    """The properties that are `"secret": true`, by themselves, by their items or by what they
    refer to."""
    return set(_secrets(schema, schema, "", set()))


def _secrets(root: Any, node: Any, name: str, seen: set[tuple[int, str | None]]) -> Iterator[str]:
    """The secret properties within a part of the schema, which is about the property `name`.

    `seen` has the parts by the names they are about, and those whose own properties were looked at.
    """
    if isinstance(node, list):
        for each in node:
            yield from _secrets(root, each, name, seen)
    if not isinstance(node, Mapping) or (id(node), name) in seen:
        return
    seen.add((id(node), name))
    if node.get("secret") is True and name:
        yield name
    for keyword, below in node.items():
        if keyword == "properties" and isinstance(below, Mapping):
            if (id(below), None) in seen:
                continue
            seen.add((id(below), None))
            for each, part in below.items():
                yield from _secrets(root, part, each, seen)
        elif keyword == "$ref":
            yield from _secrets(root, _referred(root, below), name, seen)
        elif keyword in _DEFINITIONS:
            yield from _secrets(root, [*below.values()], "", seen)
        elif keyword not in _VALUES:
            yield from _secrets(root, below, name, seen)


def _referred(root: Any, reference: Any) -> Any:
    """The value that a JSON Pointer such as `#/$defs/pin` leads to; None for none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node = root
    for step in reference[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
