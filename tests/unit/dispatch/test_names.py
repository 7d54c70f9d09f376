"""S0.5: the name of an executor says whether it is a user or a group."""

from __future__ import annotations

import pytest

from apps.common.errors import Invalid
from apps.dispatch.rules.names import is_group, is_name, kind_of, require_user


@pytest.mark.parametrize(
    ("name", "kind"), [("uid_a", "user"), ("gid_a", "group"), ("uid_a.b@c-d_9", "user")]
)
def test_prefix_gives_the_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind
    assert is_group(name) is (kind == "group")


def test_anything_else_is_no_name(subtests: pytest.Subtests) -> None:
    for name in (
        *("", "alice", "uid_", "UID_a", "uid_a ", " uid_a", "uid_á", "uid_a\n"),
        "uid_" + "x" * 125,
    ):
        with subtests.test(name=name):
            assert not is_name(name)
            with pytest.raises(Invalid, match="uid_… for a person or gid_…"):
                kind_of(name)


def test_group_is_no_user() -> None:
    with pytest.raises(Invalid, match="gid_a is a group") as caught:
        require_user("gid_a", field="add[3]")
    assert caught.value.errors[0].field == "add[3]"
