"""The base of all commands of the command line: the document of the server, calls, output.

Python 3.9 or later, standard library only.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .sdk import _MAX_BODY_BYTES, ApiError, Client
from .tables import fit, note, say, shown, table
from .words import FLAGS, Words, is_flag, meaning, read_words, value_of

REFUSED, USAGE, NO_SERVER, NO_KEY = 1, 2, 3, 4


class Console:
    """One command at one server."""

    def __init__(self, client: Client, typed: Sequence[str], words: Words) -> None:
        self._client = client
        self._typed = typed
        self._words = words
        self._is_json = "json" in words.options
        self._known: dict[str, Any] = {}

    # --- what the server says of itself -------------------------------------------------------
    @property
    def _document(self) -> dict[str, Any]:
        """Its OpenAPI document."""
        if not self._known:
            # Beside the addresses of this version, over the same connection.
            beside = copy.copy(self._client)
            beside._path = beside._path.removesuffix("/v1")
            self._known = beside._call("/schema/", None, lambda answer: answer.body)
        return self._known

    def _verbs(self, path: str) -> list[str]:
        """Return the verbs of the resource with this path."""
        paths = self._document["paths"]
        found = [each[len(path) : -1] for each in paths if each.startswith(path)]
        return [
            verb for verb in found if verb and "/" not in verb and "post" in paths[f"{path}{verb}/"]
        ]

    def _fields(self, path: str, method: str = "post") -> dict[str, Any]:
        """The schemas of the fields of a body, or of the parameters of a list."""
        operation = self._document["paths"][path][method]
        if method == "get":
            return {each["name"]: each["schema"] | each for each in operation["parameters"]}
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        return self._properties(schema)

    def _properties(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._properties(self._document["components"]["schemas"][name])
        if "oneOf" in schema:
            return self._properties(schema["oneOf"][0])
        return dict(schema.get("properties", {}))

    def _options_body(self, fields: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
        """The options of this command as these fields; Misused for others. Prints them instead, and
        ends, when that is asked for."""
        fields = {name: each for name, each in fields.items() if name not in left_out}
        flags = {name.replace("_", "-") for name, each in fields.items() if is_flag(each)}
        words = read_words(self._typed, FLAGS | flags)
        self._words = words
        if "help" in words.options:
            for name, each in fields.items():
                say(f"--{name.replace('_', '-'):20} {meaning(each)}".rstrip())
            raise SystemExit(0)
        words.only("all", *(name.replace("_", "-") for name in fields))
        body: dict[str, Any] = {}
        for option, values in words.options.items():
            name = option.replace("-", "_")
            if name in fields:
                many = fields[name].get("type") == "array"
                read = [value_of(option, value, fields[name]) for value in values]
                body[name] = read if many else read[-1]
        return body

    # --- calls and output -----------------------------------------------------------------------
    def _call(self, path: str, body: Mapping[str, Any] | None = None, method: str = "") -> Any:
        most = _MAX_BODY_BYTES
        return self._client._call(path, body, lambda a: a.body, max_bytes=most, method=method)

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        following: str | None = path
        while following:
            answer = self._call(following)
            yield from answer["results"]
            following = answer["next"] and self._after(answer["next"])

    def _after(self, address: str) -> str:
        """The path of a next page as `_call` takes it."""
        return address.partition("/api/v1")[2]

    def _rows(self, path: str, names: Sequence[str]) -> None:
        rows = list(self._pages(path))
        if self._is_json:
            self._print(rows)
        else:
            self._table(names, rows)

    def _table(
        self, names: Sequence[str], rows: Sequence[Mapping[str, Any]], widest: int = 30
    ) -> None:
        if not rows:
            note("Nothing found")
            return
        cells = [[fit(shown(name, row.get(name)), widest) for name in names] for row in rows]
        filled = [at for at in range(len(names)) if any(row[at] for row in cells)]
        shown_rows = [[row[at] for at in filled] for row in cells]
        for line in table([names[at] for at in filled], shown_rows):
            say(line)

    def _print(self, value: Any) -> None:
        # Programs read what the terminal, or the code page of a file, cannot show as escapes.
        takes_all = "utf" in (sys.stdout.encoding or "utf").lower()
        sys.stdout.write(json.dumps(value, ensure_ascii=not takes_all) + "\n")

    def _do(self, numbers: Sequence[str], path: Callable[[str], str], body: Any) -> int:
        """Do to each of these what the path stands for; the code of the first that is refused."""
        body.setdefault("reason", "at the command line")
        code = 0
        for number in numbers:
            try:
                done = self._call(path(number), body)
            except ApiError as error:
                if error.status in (401, 403):
                    raise
                code = complain(f"{number}: {error}", REFUSED)
                continue
            if self._is_json:
                self._print(done)
            else:
                say(f"{done['id']} {'paused' if done.get('paused') else done['status']}")
        return code

    def _listed(self, path: str, query: str, names: Sequence[str]) -> None:
        """The first page, or with --all every page."""
        answer = self._call(f"{path}?{query}")
        rows, following = answer["results"], answer["next"]
        if "all" in self._words.options and following:
            rows = [*rows, *self._pages(self._after(following))]
            following = None
        if self._is_json:
            self._print(rows)
        else:
            self._table(names, rows)
        if following:
            note("There may be more: --all shows every page")

    def _fields_of(self, row: Mapping[str, Any], *left_out: str) -> None:
        """A line for each field that says something."""
        for name, value in row.items():
            if name not in left_out and value not in (None, "", [], {}, False):
                say(f"{name:16} {shown(name, value)}")


def complain(line: str, code: int) -> int:
    """The code, with the line on standard error."""
    note(line)
    return code
