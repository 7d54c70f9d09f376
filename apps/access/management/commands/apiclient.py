"""API keys from the shell; a key is printed once and cannot be shown again."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.access import services
from apps.access.models import ApiClient
from apps.access.rules.clients import TERMS, Scope
from apps.common import clock
from apps.common.conf import parse_duration
from apps.common.errors import PlatformError

ACTOR = "shell"
MAX_EXPIRY = timedelta(days=36_500)
_HEADINGS = (
    "ID",
    "NAME",
    "STATE",
    "SCOPES",
    "EXECUTORS",
    "TYPES",
    "RATE",
    "EXPIRES",
    "LAST USED",
)


class Command(BaseCommand):
    help = "Creates, lists, rotates and revokes the API keys that clients call with."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        create = commands.add_parser("create", help="print a new key, once")
        create.add_argument("name", help="what the key is for")
        create.add_argument(
            "--scope",
            action="append",
            default=[],
            dest="scopes",
            metavar="SCOPE",
            help=f"required: {', '.join(Scope)}; repeat for several",
        )
        create.add_argument(
            "--executor",
            action="append",
            default=[],
            dest="executors",
            metavar="NAME",
            help="bind to uid_… or the members of gid_…; repeat for several",
        )
        create.add_argument(
            "--type",
            action="append",
            default=[],
            dest="job_types",
            metavar="TYPE",
            help="bind to a job type; repeat for several",
        )
        create.add_argument(
            "--expires", default="", dest="expires_at", metavar="TIME", help="90d, 12h, 30m"
        )
        create.add_argument("--rate", default="", help="maximum requests, as 10/s, 600/m, 100000/d")
        commands.add_parser("list", help="show all clients, without their secrets")
        rotate = commands.add_parser(
            "rotate", help="print a new key; the old one works for another 24 hours"
        )
        rotate.add_argument("client_id", metavar="ID")
        revoke = commands.add_parser("revoke", help="close a key for ever")
        revoke.add_argument("client_id", metavar="ID")

    def handle(self, *args: Any, **options: Any) -> None:
        act = {
            "create": self._create,
            "list": self._list,
            "rotate": self._rotate,
            "revoke": self._revoke,
        }[options["command"]]
        try:
            act(options)
        except PlatformError as error:
            raise CommandError(error.detail) from error

    def _create(self, options: dict[str, Any]) -> None:
        terms = {name: options[name] for name in TERMS}
        terms["expires_at"] = _expiry(terms["expires_at"])
        client, key = services.create_client(**terms, actor=ACTOR)
        self.stdout.write(key)
        for warning in services.warnings_of(client):
            self.stderr.write(warning)

    def _list(self, options: dict[str, Any]) -> None:
        now = clock.now()
        clients = list(ApiClient.objects.order_by("client_id"))
        for line in _table([_HEADINGS, *(_shown(client, now) for client in clients)]):
            self.stdout.write(line)
        for field, names in services.unknown_names(clients).items():
            if names:
                what = field.replace("_", " ")
                self.stderr.write(f"These {what} do not exist: {', '.join(sorted(names))}.")

    def _rotate(self, options: dict[str, Any]) -> None:
        self.stdout.write(services.rotate(services.find(options["client_id"]), actor=ACTOR))

    def _revoke(self, options: dict[str, Any]) -> None:
        client = services.find(options["client_id"])
        if services.revoke(client, actor=ACTOR):
            self.stdout.write(f"{client.client_id} is revoked.")
        else:
            self.stdout.write(f"{client.client_id} was revoked already.")


def _expiry(text: str) -> datetime | None:
    if not text:
        return None
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise CommandError(f"--expires: {error}.") from error
    if not timedelta(0) < duration <= MAX_EXPIRY:
        raise CommandError(
            f"--expires {text} is out of range; write 1s to {MAX_EXPIRY.days}d, or leave it out."
        )
    return clock.now() + duration


def _shown(client: ApiClient, now: datetime) -> tuple[str, ...]:
    return (
        client.client_id,
        client.name,
        str(client.state(now)),
        ",".join(client.scopes),
        ",".join(client.executors) or "all",
        ",".join(client.job_types) or "all",
        client.rate or "-",
        _time(client.expires_at) or "never",
        _time(client.last_used_at) or "never",
    )


def _time(instant: datetime | None) -> str:
    return "" if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """The rows as lines whose columns are as wide as their widest cell."""
    rows = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
