"""JSON values with secrets in every notation, and what people make of their masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from apps.common.masking import MASK

# In every secret, and nowhere else.
SECRET = "s3cr3t"
# A private key as a program logs it, line by line, and those of its lines that nobody may see.
CODE = (f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{SECRET}/+", f"{SECRET}a+b/c0", "Qw==")
PRIVATE_KEY = (
    "-----BEGIN RSA PRIVATE KEY-----",
    "DEK-Info: AES-128-CBC,0123",
    *CODE,
    "-----END RSA PRIVATE KEY-----",
)
_BEFORE = ("x ", "token=", "https://u:", "n=1&sig=", "password: ", '{"pin":"', "Bearer ", "密码：")
_BEFORE += ("mysql -p", "curl -u ann:", "密码是", "the password is ", "cookie=a; b=")
_AFTER = ("", "", "@h", " y", '"}')
_LEAF = st.integers(0, 10**6).map(lambda number: f"{SECRET}{number}")
_KEYS = ("name", "token", "pin", "note", "credentials", "list")


def _is_hidden(text: str) -> bool:
    from apps.common.masking import redact

    return SECRET not in redact(text)


_TEXTS = st.builds("{}{}{}".format, st.sampled_from(_BEFORE), _LEAF, st.sampled_from(_AFTER))
_PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["a", "北京"]))
# Under the name of a secret there may be anything; elsewhere a text must show that it has one.
_OPEN = st.one_of(_PLAIN, _TEXTS.filter(_is_hidden))

# Of a command, the secret behind its option.
_commands = st.lists(st.sampled_from(["run", "--pin", "-v"]), max_size=2).flatmap(
    lambda words: _LEAF.map(lambda secret: [*words, "--token", secret, "-v"])
)

# A private key whose lines are texts of their own, in whatever they are put.
KEY_LINES: tuple[Callable[[Sequence[str]], Any], ...] = (
    list,
    lambda lines: [[each] for each in lines],
    lambda lines: ["name", *lines, "list"],
    lambda lines: {str(number): each for number, each in enumerate(lines)},
    lambda lines: [{"line": each} for each in lines],
    lambda lines: {lines[0]: [*lines[1:]]},
    lambda lines: ["\n".join(lines[:3]), "\n".join(lines[3:])],
)
_key_lines = st.sampled_from([form(PRIVATE_KEY) for form in KEY_LINES])


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    hidden = st.one_of(_LEAF, st.lists(_LEAF, max_size=2), st.dictionaries(st.just("a"), _LEAF))
    of = {key: hidden if key in {"token", "pin", "credentials"} else inner for key in _KEYS}
    return st.fixed_dictionaries({}, optional=of)


values = _objects(
    st.recursive(
        _OPEN,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), _objects(inner), _commands, _key_lines
        ),
        max_leaves=6,
    )
)


def edits(shown: Any) -> st.SearchStrategy[Any]:
    """What was shown with parts of it in other places, in other texts, or gone."""
    return _edits(shown, [*_parts(shown)])


def _edits(shown: Any, parts: list[Any]) -> st.SearchStrategy[Any]:
    some = st.sampled_from(parts)
    if isinstance(shown, dict):
        items = st.fixed_dictionaries({key: _edits(shown[key], parts) for key in shown})
        moved = st.dictionaries(st.sampled_from(_KEYS), some, max_size=2)
        return st.one_of(st.just(shown), items, st.builds(dict.__or__, items, moved), moved)
    if isinstance(shown, list):
        items_of = st.tuples(*(_edits(item, parts) for item in shown)).map(list)
        others = st.one_of(st.lists(some, max_size=3), st.just(shown[1:]), st.permutations(shown))
        return st.one_of(st.just(shown), items_of, others)
    return st.one_of(st.just(shown), st.just(shown), some, st.sampled_from(["new", f"x {MASK}"]))


def _parts(value: Any) -> Iterator[Any]:
    yield value
    for below in value.values() if isinstance(value, dict) else ():
        yield from _parts(below)
    for below in value if isinstance(value, list) else ():
        yield from _parts(below)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The texts, numbers and so on of the value by their paths."""
    if isinstance(value, dict):
        inner = [(f"{path}.{key}", below) for key, below in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[{position}]", below) for position, below in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for at, below in inner for name, leaf in leaves(below, at).items()}


def has_secret(value: Any) -> bool:
    return any(SECRET in str(leaf) for leaf in leaves(value).values())


def require_in_place(after: Any, before: Any) -> None:
    """Each secret is where it was, and no mask has become a value."""
    was = leaves(before)
    for path, leaf in leaves(after).items():
        if SECRET in str(leaf) or MASK in str(leaf):
            assert was.get(path) == leaf, (path, leaf)
