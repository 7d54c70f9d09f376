"""How the name of a secret may be spelled in a text, as parts of the regular expressions of
`patterns.py`; what holds for those holds here.

`api_key`, `API-Key`, `apiKey` and `api key` are alike. All but what may stand between the parts of
a name is compared, whatever it is: letters and their marks, emoji, and signs such as `@` or `/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# What may stand between the letters, and between the parts, of a name.
_BETWEEN, _APART = r"_.%\[\]\-", r"_.%\[\]\-\x20"
_MOST_BETWEEN = 2
GAP, WIDE_GAP = rf"[{_BETWEEN}]{{0,2}}", rf"[{_APART}]{{0,2}}"
# Shorter ones would be found in too much.
_MIN_SPREAD = 6
# What a text may have between the letters that are compared.
_NO_LETTERS = re.compile(rf"[{_APART}\\]+")
_BACKSLASHES = r"\\{1,7}"
# Signs that other languages write behind a backslash.
_QUOTED = "\"'`\\"
# A letter as JSON in ASCII has it, also within a JSON text.
_ESCAPED = re.compile(r"\\+u([0-9a-f]{4})")
# The most that a letter may take: seven backslashes and `ud83d`, twice.
_MOST_OF_LETTER = 12
# A letter that is not of ASCII has capitals, and escapes of both: so many letters of an expression.
OTHER_LETTERS = 3


def letters(name: str) -> str:
    """The letters of a name that are compared: `apikey` of `API-Key`. "" of one without any."""
    return _NO_LETTERS.sub("", name.casefold())


def words_of(names: Iterable[str]) -> list[str]:
    """The names of operators, without what stands around them; those without a letter name
    nothing."""
    stripped = (re.sub(rf"^[{_APART}]+|[{_APART}]+$", "", name) for name in names)
    return [name for name in stripped if any(map(str.isalnum, name))]


def looks(folded: str) -> Iterator[str]:
    """What to look for `letters` in, in a text in small letters."""
    yield _NO_LETTERS.sub("", folded)
    if "\\u" in folded:
        # Two halves are one letter.
        plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), folded)
        whole = plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        yield _NO_LETTERS.sub("", whole.casefold())


def weight(name: str) -> int:
    """How many letters of ASCII make an expression as large."""
    return sum(1 if each.isascii() else OTHER_LETTERS * len(_units(each)) for each in name)


def longest(names: Iterable[str]) -> int:
    """The most characters that one of the names takes in a text."""
    sizes = (len(_units(name)) for name in names)
    return _MOST_OF_LETTER * max(sizes, default=0)


def spread(name: str) -> str:
    """The name in capitals or not, with what may stand between its parts."""
    head, *parts, tail = _parts(name)
    gap = GAP if len(letters(name)) >= _MIN_SPREAD and name.isascii() else ""
    parts[::2] = (gap.join(_spelled(each, name)) for each in parts[::2])
    return "".join((re.escape(head), *parts, re.escape(tail)))


def begin(names: Iterable[str]) -> str:
    """An expression for the first two letters of any of the names, which most places of a text are
    passed over by in a quarter of the time."""
    seconds: dict[str, set[str]] = {}
    for name in names:
        head, *parts, tail = _parts(name)
        first, *others = _spelled("".join((head, *parts[::2], tail)), name)
        gap = parts[1] if len(parts) > 1 else WIDE_GAP
        seconds.setdefault(first + gap, set()).add(others[0] if others else "")
    begins = [rf"{first}(?:{'|'.join(sorted(some))})" for first, some in seconds.items()]
    return "|".join((r"\\", *begins))


def any_of(names: Iterable[str], *, is_ascii: bool | None = None) -> str:
    """An expression for one of the names; without names, one that matches nothing."""
    some = (name for name in names if is_ascii is None or name.isascii() == is_ascii)
    return "|".join(map(spread, some)) or "(?!)"


def any_escaped(names: Iterable[str]) -> str:
    """An expression for one of the names that have nothing of ASCII, as JSON in ASCII has them."""
    some = (
        _BACKSLASHES.join(map(_escape, name)) for name in names if not any(map(str.isascii, name))
    )
    # Begins with one letter, so that most places are passed over at once.
    return rf"\\(?:\\{{0,6}}(?:{'|'.join(some) or '(?!)'}))"


def _parts(name: str) -> list[str]:
    """The signs that the name begins with, its parts with an expression for what may stand between
    two of them, and the signs that it ends with."""
    head, middle, tail = re.findall(rf"\A([{_APART}]*)([\s\S]*?)([{_APART}]*)\Z", name)[0]
    parts = re.split(rf"([{_APART}]+)", middle)
    parts[1::2] = (
        rf"[{_APART}]{{0,{max(_MOST_BETWEEN, len(between))}}}" for between in parts[1::2]
    )
    return [head, *parts, tail]


def _cases(letter: str) -> list[str]:
    """The letter in capitals and not, as far as those who look quickly hold them for equal."""
    cases = {letter, letter.lower(), letter.upper()}
    return sorted(each for each in cases if len(each) == 1 and each.casefold() == letter.casefold())


def _spelled(part: str, name: str) -> list[str]:
    """Expressions for the letters of a part of the name."""
    # `any_escaped` has the others.
    may_be_escaped = any(map(str.isascii, name))
    return [
        rf"(?:{_either(each)}|{_BACKSLASHES}{_escape(each)})"
        if may_be_escaped and not each.isascii()
        else _either(each)
        for each in part
    ]


def _either(letter: str) -> str:
    cases = _cases(letter)
    plain = f"[{''.join(cases)}]" if len(cases) > 1 else re.escape(letter)
    return rf"\\{{0,7}}{plain}" if letter in _QUOTED else plain


def _escape(letter: str) -> str:
    """The letter as JSON in ASCII has it, without the first backslash: `u5bc6`."""
    each = (_BACKSLASHES.join(_units(case)) for case in _cases(letter))
    return f"(?i:{'|'.join(each)})"


def _units(text: str) -> list[str]:
    code = text.encode("utf-16-be", "surrogatepass")
    return [f"u{code[at : at + 2].hex()}" for at in range(0, len(code), 2)]
