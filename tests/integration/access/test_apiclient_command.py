"""`manage.py apiclient`: what scripts and people at the shell rely on."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from apps.access import services
from apps.access.models import ApiClient
from apps.journal.models import JournalEntry
from tests.integration.access.conftest import START, Call, bearer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("apiclient", *arguments, stdout=out)
    return out.getvalue()


def test_create_prints_exactly_one_line_and_its_key_works(call: Call) -> None:
    printed = run(
        *("create", "Shop scanners", "--scope", "read", "--scope", "pull"),
        *("--executor", "uid_a", "--executor", "gid_b", "--type", "mail"),
        *("--expires", "90d", "--rate", "600/m"),
    )

    client = ApiClient.objects.get()
    assert printed.endswith("\n")
    assert printed.count("\n") == 1
    assert printed.startswith(f"{client.client_id}.")
    assert (client.name, client.scopes) == ("Shop scanners", ["pull", "read"])
    assert (client.executors, client.job_types) == (["gid_b", "uid_a"], ["mail"])
    assert (client.expires_at, client.rate) == (START + timedelta(days=90), "600/m")
    assert call(bearer(printed.strip())).status_code == 200
    assert JournalEntry.objects.get().actor == "shell"


def test_create_with_a_mistake_says_what_is_wrong_and_makes_nothing(
    subtests: pytest.Subtests,
) -> None:
    for arguments, message in (
        ([], "A key needs at least one scope of pull, submit, hold, read, operate"),
        (["--scope", "admin"], "'admin' is not allowed in scopes; a scope is one of"),
        (["--scope", "read", "--executor", "alice"], "'alice' is not allowed in executors"),
        (["--scope", "read", "--type", "a b"], "'a b' is not allowed in job_types"),
        (["--scope", "read", "--rate", "fast"], "'fast' is not a rate"),
        (["--scope", "read", "--expires", "soon"], "'soon' is not a duration; write for example"),
        (["--scope", "read", "--expires", "-1d"], "expires"),
        (["--scope", "read", "--expires", "0"], "--expires 0 is out of range; write 1s to 36500d"),
        (["--scope", "read", "--expires", "36501d"], "is out of range"),
        (["--scope", "read", "--expires", "999999999d"], "is out of range"),
    ):
        with subtests.test(arguments=arguments):
            with pytest.raises(CommandError) as caught:
                run("create", "Key", *arguments)

            assert message in str(caught.value)
            assert "\n" not in str(caught.value)
    assert not ApiClient.objects.exists()


def test_list_shows_every_client_and_no_secret() -> None:
    _, key = services.create_client(
        name="Shop",
        scopes=["pull", "read"],
        executors=["uid_a"],
        expires_at=START + timedelta(days=1),
        rate="10/s",
        actor="ada",
    )
    revoked, _ = services.create_client(name="Old", scopes=["read"], actor="ada")
    services.revoke(revoked, actor="ada")

    heading, old, shop = run("list").splitlines()

    assert heading.split()[:4] == ["ID", "NAME", "STATE", "SCOPES"]
    assert old.split()[:4] == [revoked.client_id, "Old", "revoked", "read"]
    assert shop.split() == [
        *(key.partition(".")[0], "Shop", "live", "pull,read", "uid_a", "all", "10/s"),
        *("2026-03-03T09:00:00Z", "never"),
    ]
    assert heading.index("SCOPES") == old.index("read") == shop.index("pull,read")
    hidden = [key.partition(".")[2], *ApiClient.objects.values_list("secret_hash", flat=True)]
    assert not [text for text in hidden if text in "".join((heading, old, shop))]


def test_rotate_prints_exactly_the_new_key_and_both_work(call: Call) -> None:
    client, old = services.create_client(name="Shop", scopes=["read"], actor="ada")

    printed = run("rotate", client.client_id)

    assert printed.count("\n") == 1
    assert printed.strip() != old
    assert [call(bearer(key)).status_code for key in (old, printed.strip())] == [200, 200]


def test_revoke_closes_the_key(call: Call) -> None:
    client, key = services.create_client(name="Shop", scopes=["read"], actor="ada")

    assert run("revoke", client.client_id) == f"{client.client_id} is revoked.\n"

    assert call(bearer(key)).status_code == 401
    assert run("revoke", client.client_id) == f"{client.client_id} was revoked already.\n"


@pytest.mark.parametrize("command", ["rotate", "revoke"])
def test_unknown_id_is_reported_in_one_sentence(command: str) -> None:
    with pytest.raises(CommandError, match="There is no API key 'nobody'; list them"):
        run(command, "nobody")
