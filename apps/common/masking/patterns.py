"""The patterns that hide secrets in texts: regular expressions alike in Python, MariaDB and MySQL.

All three apply the same ones in the same order, so that nothing can be found that is not shown. So
there are no \\w, \\s, \\b and no flags in them: each of the three means something else by these.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

from apps.common.masking import spelling
from apps.common.masking.spelling import WIDE_GAP, any_escaped, any_of, spread

MASK = "••••••"

_BLANK = r"\x09-\x0D\x20"
# The characters of a name: all but blanks, quotes and the signs between names and values.
_DIVIDERS = "\u3000，。；：？！＝（）“”‘’「」"
_IN_NAME = rf"[^\x00-\x20!\"#\$\&'\(\)\*\+,/:;<=>\?@\\\^`\{{\|\}}~\x7F{_DIVIDERS}]"
# All of the rest, never less of it: whatever may follow a name is no character of one.
_REST = rf"{_IN_NAME}{{0,80}}+"
# Where words of a name begin and end, also in `apiKey`, `APIKey` and `password2`.
_HUMP = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
# Before a name there may also be the escape of a line in a JSON text.
_BEGIN = rf"(?:(?<![A-Za-z])|(?<=\\[nrt])|{_HUMP})"
_END = rf"(?:(?![A-Za-z])|{_HUMP})"
# Names that end so are about a secret, and their values are none: `session_count`, `TokenError`.
_ABOUT = (
    *("at", "changed", "count", "counts", "created", "days", "enabled", "error", "exception"),
    *("expired", "expires", "expires_in", "expiry", "failed", "hours", "invalid", "length"),
    *("limit", "minutes", "missing", "required", "seconds", "size", "timeout", "ttl", "type"),
    *("updated", "长度", "数量", "次数", "类型", "错误", "失败", "无效", "过期", "为空"),
)
# Too common elsewhere, but in the query of an address they name what opens it.
_IN_QUERY = ("key", "sig", "sign", "signature")
_WAYS = (
    *("Bearer", "Basic", "Token", "Digest", "ApiKey", "Api-Key", "Negotiate", "NTLM", "OAuth"),
    *("Hawk", "SSWS", "AWS4-HMAC-SHA256"),
)
_WAY = rf"(?:(?i:{'|'.join(_WAYS)})[{_BLANK}]+)?"
_SPACE = rf"[{_BLANK}]{{0,8}}"
_COLON, _EQUALS = "[:：]", "[:=＝]?[=＝]>?"
# The end of a quoted name, also within a JSON text in another, and the begin of a quoted value.
_CLOSING, _OPENING = r"\\{0,7}[\"'`]", r"[bBuUrR]{0,2}\\{0,7}[\"'`]"

# Names of so many letters are found behind others, too: `PGPASSWORD`, `dbpassword`.
_MIN_GLUED = 8
# Where a secret begins that is known by its own first letters.
_FRESH = r"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_TOKENS = (
    *("gh[opsur]_", "github_pat_", "glpat-", "xox[abeoprs]-", "npm_", "[rs]k_live_", "sk-"),
    "AIza",
)
# Addresses that whoever knows them may post to.
_HOOKS = (r"hooks\.slack\.com/(?:services|workflows)/", "open-apis/bot/v2/hook/")
_ACCESS_KEYS = (r"A[KS]IA[A-Z0-9]{16}", r"LTAI[A-Za-z0-9]{12,24}", r"AKID[A-Za-z0-9]{32}")
# What programs are given, up to the end of the command, and between an option and its value.
_ARGUMENTS = r"[^\n;|&]{0,200}?"
_NEXT = rf"(?:\\{{0,7}}[\"'])?,?[{_BLANK}=]{{0,3}}(?:\\{{0,7}}[\"'])?"
# Programs, and their options with a secret that are too short to have a name.
_PROGRAMS = (
    rf"(?:mysql|mariadb){_ARGUMENTS}[{_BLANK}\"']-p[\"']?",
    rf"sshpass[{_BLANK}\"',]{{1,4}}-p{_NEXT}",
    rf"(?:docker|podman)[{_BLANK}\"',]{{1,4}}login{_ARGUMENTS}[{_BLANK}\"']-p{_NEXT}",
    rf"mongo{_ARGUMENTS}[{_BLANK}\"']-p{_NEXT}",
    rf"redis-cli{_ARGUMENTS}[{_BLANK}\"']-a{_NEXT}",
    rf"curl{_ARGUMENTS}[{_BLANK}\"'](?:-[A-Za-z]{{0,8}}[uU]|--(?:proxy-)?user){_NEXT}"
    rf"[^{_BLANK}:\"']{{1,100}}:",
)
_SQL = rf"(?i:IDENTIFIED[{_BLANK}]+BY|PASSWORD)(?:[{_BLANK}]{{1,2}}\(?|\()[\"']"
_TO_QUOTE = r"(?<=')[^'\n]+|(?<=\")[^\"\n]+"
# Sentences: `password is s3cret`, `密码是s3cret`, and words that go on without a value.
_VALUE = r"[!#-&\(-;=?-_a-~]"
_IS = rf"[{_BLANK}]+(?i:is|was|are)[{_BLANK}]+"
_SHI = rf"{_SPACE}(?:(?:是|为|成){_SPACE}[\"'`“‘「【（]?|[“‘「【])"
_NO_VALUE = (
    *("is", "are", "was", "were", "be", "must", "may", "can", "cannot", "should", "has", "have"),
    *("and", "or", "not", "no", "for", "to", "in", "of", "on", "with", "without", "from", "if"),
    *("when", "as", "by", "at", "needs", "required", "missing", "invalid", "expects", "option"),
    *("argument", "flag", "null", "None", "true", "false", "undefined"),
)
_UNSAID = rf"(?!(?i:{'|'.join(_NO_VALUE)})(?![A-Za-z0-9_\-]))"
# `sha256`, `utf8`, `3days`, `2026-11-27`, `8位`.
_PLAIN_WORD = (
    r"(?!(?i:sha|md5|base|utf|http|v[0-9])|[0-9]{1,6}[A-Za-z]{1,7}(?![A-Za-z0-9])|[0-9]{4}-"
    r"|[0-9]{1,3}[\x20\-~]{0,2}[0-9]{0,3}\x20?[位个字到至])"
)

# An option of a command and its value, where each is an element of a list.
_OPTION = rf"--{_IN_NAME}{{1,200}}(?![\s\S])"
OPTION_VALUE = re.compile(rf"(?!-){_UNSAID}.", re.DOTALL)
# Most keys of objects are shorter.
_SHORT = 200
# Where names are looked for at once: a processor needs some milliseconds.
_WINDOW = 4_000


class Patterns:
    """Made from the names of the list: those that are found as words of a name, and `whole`
    ones."""

    def __init__(self, words: Iterable[str], whole: Iterable[str]) -> None:
        words, whole = spelling.words_of(words), [*filter(None, sorted(whole))]
        names = (*words, *whole)
        self._letters = [*dict.fromkeys(map(spelling.letters, names))]
        name = _name(words, whole)
        self._name = re.compile(name)
        self._begins = re.compile(rf"(?={spelling.begin(names)})(?={name})")
        # With all that may stand between its letters, and some more.
        self._longest = 100 + spelling.longest(names)
        # As the other sources: the option of a command whose next argument is a secret.
        self.option = rf"^(?={_OPTION})(?=[\s\S]{{0,200}}?{name})"
        self._option = re.compile(self.option)
        named = [*_named(name)]
        self.sources = (*(each[-1] for each in _UNNAMED), *(each[-1] for each in named))
        self._hiding = [
            (marks, re.compile(rf"(?={begin})") if begin else None, re.compile(source))
            for marks, begin, source in named
        ]
        # Keys repeat.
        self._known = functools.lru_cache(maxsize=4096)(self._is_name)

    def is_name(self, key: str) -> bool:
        """Whether that is the name of a secret."""
        # Callers choose the keys, so only short ones are kept.
        return self._known(key) if len(key) <= _SHORT else self._is_name(key)

    def _is_name(self, key: str) -> bool:
        return self._name.search(key) is not None

    def is_option(self, argument: Any) -> bool:
        """Whether the next argument of a command is a secret: `--password`."""
        return isinstance(argument, str) and self._option.match(argument) is not None

    def hide(self, text: str) -> str:
        """The text with MASK in place of each secret."""
        folded = text.casefold()
        if not _ANY_MARK.search(folded):
            return text
        for marks, pattern in _HIDING:
            if _has_any(folded, marks):
                text = pattern.sub(_masked, text)
        if _has_any(folded, _SIGNS) and self._may_name(folded):
            text = self._hide_named(text, folded)
        return text

    def _hide_named(self, text: str, folded: str) -> str:
        """What `sub` of each expression would make: each is tried only where it may begin."""
        names: list[int] | None = None
        for marks, begin, pattern in self._hiding:
            if not _has_any(folded, marks):
                continue
            if begin is None:
                names = self._begins_of_names(text) if names is None else names
                hidden = _sub_at(pattern, text, names)
            else:
                hidden = _sub_at(pattern, text, (each.start() for each in begin.finditer(text)))
            if hidden is not text:
                text, names = hidden, None
        return text

    def _begins_of_names(self, text: str) -> list[int]:
        """Every position of the text where the name of a secret begins. Looks at windows, most of
        which have no letters of a name; between them other threads go on."""
        found: list[int] = []
        for first in range(0, len(text), _WINDOW):
            last, end = first + _WINDOW, first + _WINDOW + self._longest
            if self._may_name(text[first:end].casefold()):
                begins = (each.start() for each in self._begins.finditer(text, first, end))
                found += (begin for begin in begins if begin < last)
        return found

    def _may_name(self, folded: str) -> bool:
        """Whether the text has the letters of a name: a quick look."""
        return any(_has_any(each, self._letters) for each in spelling.looks(folded))


def _has_any(folded: str, marks: Iterable[str]) -> bool:
    # A generator for `any` takes three times as long, and so many texts are short.
    for mark in marks:
        if mark in folded:
            return True
    return False


def _sub_at(pattern: re.Pattern[str], text: str, begins: Iterable[int]) -> str:
    """What `pattern.sub(_masked, text)` makes, if it matches at none but these positions; the text
    itself when nothing changes."""
    parts: list[str] = []
    end = 0
    for begin in begins:
        if begin >= end and (found := pattern.match(text, begin)):
            parts += text[end:begin], _masked(found)
            end = found.end()
    return "".join([*parts, text[end:]]) if parts else text


def _masked(found: re.Match[str]) -> str:
    return found[1] + MASK


def _name(words: list[str], whole: list[str]) -> str:
    """The name of a secret, or the begin of it: the rest is in the text behind."""
    about = rf"(?:{WIDE_GAP}(?:{'|'.join(map(spread, _ABOUT))}))+(?!{_IN_NAME})"
    glued = [word for word in words if len(spelling.letters(word)) >= _MIN_GLUED]
    short = [word for word in words if word not in glued]
    found = [
        rf"(?:{_BEGIN}(?:{any_of(short, is_ascii=True)})|{any_of(glued, is_ascii=True)}){_END}",
        any_of(words, is_ascii=False),
        any_escaped(words),
    ]
    declared = rf"(?<!{_IN_NAME})(?:{any_of(whole)}|{any_escaped(whole)})(?!{_IN_NAME})"
    return rf"(?:(?:{'|'.join(found)})(?!{about})|{declared})"


_CODE = r"[A-Za-z0-9_\-]"
# The expressions that hide secrets, one after another, each behind what a text has in small letters
# that it may be about; the text of the first group stays.
_UNNAMED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("bearer", "basic"),
        rf"((?<![A-Za-z0-9_])(?i:Bearer|Basic)[{_BLANK}]+)[A-Za-z0-9_.~+/=\-]{{8,}}",
    ),
    # Up to the last @: many a password has one, and some a slash.
    (
        ("://",),
        rf"(://)(?:[^{_BLANK}/?#\"'<>]+"
        rf"|[^{_BLANK}/?#:@\[\"'<>]{{0,100}}:(?![0-9]{{1,5}}[/?#])[^{_BLANK}\"'<>]{{1,200}})(?=@)",
    ),
    (
        tuple(f"{name}=" for name in _IN_QUERY),
        rf"([?&;#](?i:{'|'.join(_IN_QUERY)})=)[^{_BLANK}&;#\"'<>]+",
    ),
    (
        ("-----begin",),
        r"(-----BEGIN[A-Z\x20]{0,40}\x20PRIVATE\x20KEY(?:\x20BLOCK)?-----)"
        r"(?:(?!-----END)[\s\S])+",
    ),
    # JSON Web Tokens, tokens of others and keys of the platform, and keys that come in two parts.
    (
        ("eyj",),
        rf"({_FRESH})eyJ{_CODE}{{8,}}\.{_CODE}{{4,}}\.{_CODE}*(?:\.{_CODE}+){{0,2}}",
    ),
    (
        ("gh", "glpat-", "xox", "npm_", "k_live_", "sk-", "aiza", "hooks.slack", "/bot/v2/hook/"),
        rf"({_FRESH}(?:{'|'.join((*_TOKENS, *_HOOKS))}))"
        rf"(?:(?<=/)[A-Za-z0-9_/\-]{{8,}}|(?<!/){_CODE}{{16,}})",
    ),
    ((".",), rf"(\.(?<=-[a-z0-9]{{6}}\.)){_CODE}{{43}}(?!{_CODE})"),
    (
        ("akia", "asia", "ltai", "akid"),
        rf"({_FRESH})(?:{'|'.join(_ACCESS_KEYS)})(?![A-Za-z0-9])"
        r"(?:[\s\S]{1,40}?(?<![A-Za-z0-9/+])"
        r"(?:[A-Za-z0-9/+]{40}|[A-Za-z0-9]{32}|[A-Za-z0-9]{30})(?![A-Za-z0-9/+]))?",
    ),
    (
        (
            *("mysql", "mariadb", "sshpass", "login", "mongo", "redis-cli", "curl"),
            *("identified", "password"),
        ),
        rf"((?<![A-Za-z0-9_.\-])(?:{'|'.join(_PROGRAMS)}|{_SQL}))"
        rf"(?:{_TO_QUOTE}|(?<![\"'])[^{_BLANK}\"'<>]+)",
    ),
)
_COLONS, _EQUAL_SIGNS = (":", "："), ("=", "＝")
_VERBS, _SHI_MARKS = ("is", "was", "are"), (*"是为成“‘「【",)
# One of them stands between each name and its value.
_SIGNS = (*_COLONS, *_EQUAL_SIGNS, "--", *_VERBS, *_SHI_MARKS, ">")
_ANY_MARK = re.compile(
    "|".join(re.escape(m) for m in (*_SIGNS, *chain(*(m for m, _s in _UNNAMED))))
)
_HIDING = [(marks, re.compile(source)) for marks, source in _UNNAMED]


def _named(name: str) -> Iterable[tuple[tuple[str, ...], str | None, str]]:
    """The expressions that hide what stands behind the name of a secret, as `_UNNAMED`, each with
    an expression for what it begins with; None: the name."""
    blank, some = _BLANK, rf"[^{_BLANK}\"'<>]"
    sign = rf"{_SPACE}(?:{_COLON}|{_EQUALS}){_SPACE}"
    signs = (*_COLONS, *_EQUAL_SIGNS)
    named = rf"{name}{_REST}(?:{_CLOSING})?{sign}"
    yield signs, None, rf"({named}[bBuUrR]{{0,2}}([\"'`]))(?:\\[\s\S]|(?!\2)[^\\])+"
    yield signs, None, rf"({named}(\\{{1,7}}[\"'`]))(?:(?!(?<!\\)\2)[\s\S])+"

    # A value that opens a bracket hides all that follows: no regular expression finds its end.
    begin = rf"(?!{_OPENING})(?:[\[{{(][\s\S]*|{_WAY}"
    yield signs, None, rf"({name}{_REST}{_CLOSING}{sign}){begin}[^{blank},\}}\]\"'<>]+)"
    # `name: name: value` has one value, and so have cookies.
    yield (
        _COLONS,
        None,
        rf"({name}{_REST}{_SPACE}{_COLON}{_SPACE})"
        rf"{begin}(?:[^{blank}\"'<>]*[:：=;][{blank}]+){{0,100}}{some}+)",
    )
    yield (
        _EQUAL_SIGNS,
        None,
        rf"({name}{_REST}{_SPACE}(?:{_EQUALS}){_SPACE})"
        rf"{begin}(?:[^{blank}&;#\"'<>]*[:：=][{blank}]+){{0,20}}[^{blank}&;#\"'<>]+)",
    )

    # Options of a command, sentences, and XML. Of many dashes the first two that may begin an
    # option do, and what begins another one is looked at there.
    option = r"(?<![A-Za-z0-9])(?<![^A-Za-z0-9]-)--"
    yield (
        ("--",),
        "--",
        rf"({option}(?:(?!{option}){_IN_NAME}){{0,80}}?{name}{_REST}"
        rf"(?:[{blank}]+|\\{{0,7}}[\"'],[{blank}]*)(?:\\{{0,7}}[\"'])?)"
        rf"(?!-){_UNSAID}(?:{_TO_QUOTE}|(?<![\"'])[^{blank}\"'<>]+)",
    )
    word = r"(?=[A-Za-z0-9_\-]{0,40}"
    yield (
        _VERBS,
        None,
        rf"({name}{_REST}{_IS}[\"'`]?)(?:{_TO_QUOTE}"
        rf"|(?<![\"'`]){_PLAIN_WORD}{word}[0-9]){word}[A-Za-z]){_VALUE}{{4,}})",
    )
    yield _SHI_MARKS, None, rf"({name}{_IN_NAME}{{0,4}}?{_SHI}){_UNSAID}{_PLAIN_WORD}{_VALUE}+"
    yield (
        (">",),
        "<",
        rf"(<[^<>/{blank}]{{0,80}}{name}{_REST}(?:[{blank}][^<>]{{0,200}})?>)[^<>]+",
    )
    # Of `cookie=a; b=2` the first is hidden by now, and all others are cookies, too.
    yield (
        ("cookie",),
        "(?i:cookie)",
        rf"((?i:cookie){_REST}{_SPACE}(?:{_COLON}|{_EQUALS}){_SPACE})"
        rf"{MASK}(?:\"[^\"\r\n]*\")?[{blank}]{{0,2}};(?:=\"[^\"\r\n]*\"|[^\r\n\"'<>])*",
    )
