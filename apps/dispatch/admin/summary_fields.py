"""The fields of a result that lists show, where a template names some."""

from __future__ import annotations

from collections.abc import Iterable

from apps.dispatch.models import Template

# The keyword of a template's schema that names the fields to show.
SUMMARY = "x-summary"


def summary_fields(versions: Iterable[tuple[str, int | None]]) -> dict[tuple[str, int], list[str]]:
    """The fields that these versions of templates name, in one statement."""
    wanted = {(name, version) for name, version in versions if name}
    if not wanted:
        return {}
    rows = Template.objects.filter(name__in={name for name, _version in wanted})
    found = rows.values_list("name", "version", "schema")
    return {
        (name, version): [field for field in schema.get(SUMMARY, ()) if isinstance(field, str)]
        for name, version, schema in found
        if (name, version) in wanted
        and isinstance(schema, dict)
        and isinstance(schema.get(SUMMARY, ()), list | tuple)
    }
