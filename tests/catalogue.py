"""Which texts the sources mark for translation, and what a catalogue makes of them.

In Python alone: translating needs the tools of gettext, testing does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from django.template.base import Lexer, TokenType
from django.utils.translation.template import templatize

# Which arguments of a marking function are the context, the text and its plural.
_PARTS: dict[str, tuple[int | None, int, int | None]] = {
    "_": (None, 0, None),
    "gettext": (None, 0, None),
    "gettext_lazy": (None, 0, None),
    "gettext_noop": (None, 0, None),
    "ngettext": (None, 0, 1),
    "ngettext_lazy": (None, 0, 1),
    "pgettext": (0, 1, None),
    "pgettext_lazy": (0, 1, None),
    "npgettext": (0, 1, 2),
    "npgettext_lazy": (0, 1, 2),
}
_LITERAL = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CALL = re.compile(rf"\b(_|n?p?gettext)\(\s*({_LITERAL}(?:\s*,\s*{_LITERAL})*)", re.DOTALL)
_FILLED = r"\{\w*(?:![rsa])?(?::[^{}]*)?\}"
_PLACEHOLDER = re.compile(rf"%(?:\(\w+\))?[a-z%]|{_FILLED}|</?\w+[^>]*>")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
# Four words and more that end as a sentence does.
_SENTENCE = re.compile(r"(?:\S+\s+){3,}\S+\.\Z", re.DOTALL)
# Elements whose text is code, or the name of an icon.
_NO_WORDS = re.compile(
    r"<(script|style|code|pre)\b.*?</\1>|<span class=\"material-symbols-outlined\b.*?</span>",
    re.DOTALL,
)
_SHOWN_ATTRIBUTE = re.compile(r'\b(?:title|alt|placeholder|aria-label)="([^"]*)"')


class Message(NamedTuple):
    """What a catalogue is asked for; `plural` and `context` are "" where there is none."""

    text: str
    plural: str = ""
    context: str = ""

    @property
    def key(self) -> str:
        """What a compiled catalogue files it under."""
        return f"{self.context}\x04{self.text}" if self.context else self.text

    @property
    def placeholders(self) -> list[str]:
        """Of the plural, where there is one: a language with one form says both by it."""
        return placeholders(self.plural or self.text)


def placeholders(text: str) -> list[str]:
    """What is filled in, and how (`{name!r}`), and tags, in alphabetical order."""
    return sorted(_PLACEHOLDER.findall(text))


def own_words(text: str) -> str:
    """The text without what is filled in."""
    return _PLACEHOLDER.sub("", text)


@dataclass
class Marks:
    """The marked texts, each with a file that has it, the marks of what is no literal, and the
    sentences of Python files that nobody marked."""

    messages: dict[Message, Path] = field(default_factory=dict)
    not_literal: list[str] = field(default_factory=list)
    unmarked: dict[Path, list[str]] = field(default_factory=dict)


def marks_in(paths: Iterable[Path]) -> Marks:
    """What Python files, templates and scripts mark for translation."""
    marks = Marks()
    for path in sorted(paths):
        source = path.read_text()
        if path.suffix == ".py":
            # Parsed and walked once for both: that takes longest.
            nodes = [*ast.walk(ast.parse(source))]
            marks.unmarked[path] = _unmarked_sentences(nodes)
            calls = _python_calls(nodes)
        else:
            calls = _script_calls(templatize(source) if path.suffix == ".html" else source)
        for name, arguments in calls:
            texts = ["" if at is None else arguments.get(at) for at in _PARTS[name]]
            if None in texts:
                marks.not_literal.append(f"{path}: a call of {name}")
                continue
            context, text, plural = (text or "" for text in texts)
            marks.messages.setdefault(Message(text, plural, context), path)
    return marks


def _python_calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, dict[int, str]]]:
    """Name and literal arguments, by position, of every call of a marking function."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        if name in _PARTS:
            yield (
                name,
                {
                    at: argument.value
                    for at, argument in enumerate(node.args)
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                },
            )


def _script_calls(source: str) -> Iterator[tuple[str, dict[int, str]]]:
    for call in _CALL.finditer(source):
        literals = re.findall(_LITERAL, call[2])
        yield call[1], {at: ast.literal_eval(literal) for at, literal in enumerate(literals)}


def unmarked_words(template: str) -> list[str]:
    """The texts that a template shows and does not mark."""
    shown: list[str] = []
    depth = 0
    for token in Lexer(template).tokenize():
        if token.token_type == TokenType.BLOCK:
            word = token.contents.split()[0]
            depth += word in ("blocktranslate", "comment")
            depth -= word in ("endblocktranslate", "endcomment")
        elif token.token_type == TokenType.TEXT and not depth:
            shown.append(token.contents)
        elif not depth:
            # So that a tag in whose middle a value stands is still seen as one.
            shown.append("0")
    page = _NO_WORDS.sub("", "".join(shown))
    texts = [*_SHOWN_ATTRIBUTE.findall(page), *re.sub(r"<[^>]*>", "\n", page).splitlines()]
    return [text.strip() for text in texts if _LETTERS.search(text)]


@dataclass(frozen=True)
class Entry:
    """One entry of a .po file; several `translations` are plural forms in their order."""

    translations: tuple[str, ...]
    is_fuzzy: bool


def read_po(path: Path) -> dict[Message, Entry]:
    """The entries of a .po file without its header; what is commented out does not count."""
    entries: dict[Message, Entry] = {}
    for block in re.split(r"\n\s*\n", path.read_text()):
        fields = _fields(block)
        if not fields.get("msgid"):
            continue
        forms = sorted(name for name in fields if name.startswith("msgstr"))
        plural, context = fields.get("msgid_plural", ""), fields.get("msgctxt", "")
        message = Message(fields["msgid"], plural, context)
        if message in entries:
            raise ValueError(f"{path} has {message} twice")
        is_fuzzy = bool(re.search("^#,.*fuzzy", block, re.MULTILINE))
        entries[message] = Entry(tuple(fields[form] for form in forms), is_fuzzy)
    return entries


def _fields(block: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        if not line or line.startswith("#"):
            continue
        keyword, quote, rest = line.partition('"')
        if not quote:
            raise ValueError(f"not a line of a catalogue: {line!r}")
        name = keyword.strip() or name
        # The escapes of a .po file are those of Python.
        fields[name] = fields.get(name, "") + ast.literal_eval(f'"{rest}')
    return fields


def _unmarked_sentences(nodes: Iterable[ast.AST]) -> list[str]:
    """The whole sentences in Python source that no marking function has, places as `{}`.

    Docstrings are for readers of the source, and the log is in English.
    """
    passed: set[int] = set()
    texts: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, ast.Expr):
            passed.add(id(node.value))
        elif isinstance(node, ast.Call) and _is_for_programs(node):
            passed.update(id(inner) for argument in node.args for inner in ast.walk(argument))
        elif isinstance(node, ast.JoinedStr):
            passed.update(id(inner) for inner in ast.walk(node) if inner is not node)
        if isinstance(node, ast.JoinedStr | ast.Constant):
            texts.append(node)
    said = [_text_of(node) for node in texts if id(node) not in passed]
    return [text for text in said if text.endswith(".") and _SENTENCE.match(text)]


def _is_for_programs(call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Attribute):
        return isinstance(called.value, ast.Name) and called.value.id == "logger"
    return isinstance(called, ast.Name) and called.id in _PARTS


def _text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        return "".join(map(str, parts))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
