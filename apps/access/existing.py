"""Which of the names that keys are bound to exist.

Executors and job types belong to other apps, which register here how they are found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from django.utils.translation import gettext

from apps.access.models import ApiClient

# From names to those of them that exist.
Find = Callable[[Collection[str]], Iterable[str]]
_find: dict[str, Find] = {}
FIELDS = ("executors", "job_types")


def register(field: str, find: Find) -> None:
    """Use this to find the names in the field of a key: `executors` or `job_types`."""
    _find[field] = find


def unknown_names(clients: Iterable[ApiClient]) -> dict[str, set[str]]:
    """The names that these keys are bound to and that nothing has, by field; one query for each."""
    clients = list(clients)
    unknown = {}
    for field in FIELDS:
        names = {name for client in clients for name in getattr(client, field)}
        unknown[field] = names - set(_find[field](names)) if names else set()
    return unknown


def warnings_of(client: ApiClient) -> list[str]:
    """A sentence for each kind of names that the key is bound to and that do not exist."""
    unknown = unknown_names([client])
    sentences = {
        "executors": gettext(
            "No executor has the name: %(names)s. The key finds nothing there until one is made; "
            "check the spelling."
        ),
        "job_types": gettext(
            "No job type has the name: %(names)s. The key finds nothing there until one is made; "
            "check the spelling."
        ),
    }
    return [
        sentences[field] % {"names": ", ".join(sorted(unknown[field]))}
        for field in FIELDS
        if unknown[field]
    ]
