"""Addresses and secrets of channels are in the database and its dumps under a key alone."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from apps.alerts import sweeps
from apps.alerts.handlers import deliver
from apps.alerts.models import Channel, Delivery
from apps.alerts.services import settings as services
from apps.alerts.services.notify import send_test
from apps.common.db import execute, fetch, table
from apps.common.errors import Invalid
from apps.common.sealed import PREFIX, Unreadable
from apps.jobs.handlers import Retry
from tests.alerts import Attempt, Receiver, address, channel
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]

# Sealed texts are random letters, which would spell a shorter word now and then.
URL, SECRET = "https://alerts.example.org/hook/T0KEN?k=K3Y0FB0T", "密钥 S3CRET"
NEW_KEY = "another-key-of-tests" * 4


def stored() -> list[str]:
    """What the columns of all channels hold."""
    rows = fetch(f"SELECT url, secret FROM {table(Channel)} ORDER BY id")
    return [value for row in rows for value in row]


def known() -> tuple[str, str]:
    found = Channel.objects.get()
    return found.url, found.secret


def rekey(settings: Any, *, keeps: bool) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY] if keeps else []
    settings.SECRET_KEY = NEW_KEY


@pytest.mark.both
def test_no_row_and_no_dump_holds_them(tmp_path: Path) -> None:
    made = channel(url=URL, secret=SECRET)
    services.update(made, {"language": "en"}, version=1, actor="test")
    send_test(made, actor="admin:olga")
    out = StringIO()

    call_command("dumpdata", stdout=out)

    dump = json.dumps(json.loads(out.getvalue()), ensure_ascii=False)
    assert not [word for word in ("T0KEN", "K3Y0FB0T", "S3CRET") if word in dump + str(stored())]
    assert all(each.startswith(PREFIX) for each in stored())
    assert known() == (URL, SECRET)
    # Equal secrets do not look equal.
    assert len({*stored(), *(channel("b", url=URL, secret=SECRET) and stored())}) == 4
    # And a dump is loaded as it is.
    Channel.objects.filter(name="b").delete()
    dumped = tmp_path / "dump.json"
    call_command("dumpdata", "alerts.channel", output=str(dumped))
    Channel.objects.all().delete()
    call_command("loaddata", str(dumped), verbosity=0)
    assert known() == (URL, SECRET)


@pytest.mark.both
def test_rows_of_earlier_releases_are_read_and_sealed_by_the_sweep(settings: Any) -> None:
    """Not by `migrate`, after which parts of the earlier release still send for a while."""
    channel(url=URL, secret=SECRET)
    settings.MAIL_HOST = "mail.example.org"
    channel("mail", kind="mail", url="", recipients=["a@example.org"])
    execute(f"UPDATE {table(Channel)} SET url = %s, secret = %s WHERE name = 'ops'", [URL, SECRET])
    assert Channel.objects.get(name="ops").url == URL

    sweeps.evaluate()

    first, second, *of_mail = stored()
    assert first.startswith(PREFIX) and second.startswith(PREFIX)
    assert of_mail == ["", ""]
    assert Channel.objects.get(name="ops").secret == SECRET
    assert services.seal_channels() == 0


def test_new_key_opens_by_the_old_one_and_soon_without_it(settings: Any) -> None:
    channel(url=URL, secret=SECRET)
    rekey(settings, keeps=True)
    assert known() == (URL, SECRET)

    assert (services.seal_channels(), services.seal_channels()) == (1, 0)

    settings.SECRET_KEY_FALLBACKS = []
    assert known() == (URL, SECRET)


def test_without_its_key_a_channel_waits_says_why_and_loses_nothing(
    settings: Any, site: Receiver, client: Client, admin_user: User
) -> None:
    made = channel(url=f"{site.url}/T0KEN", secret=SECRET)
    old = settings.SECRET_KEY
    delivery = send_test(made, actor="admin:olga")
    rekey(settings, keeps=False)
    assert isinstance(Channel.objects.get().url, Unreadable)

    with pytest.raises(Retry, match="SECRET_KEY was changed"):
        deliver({"delivery": delivery.pk}, Attempt())

    client.force_login(admin_user)
    page = address("channel", "change", made.pk)
    assert "SECRET_KEY was changed" in text_of(client.get(page))
    assert client.get(address("channel", "changelist")).status_code == 200
    before = stored()
    Channel.objects.get().save()
    assert (services.seal_channels(), stored() == before, site.taken) == (0, True, [])
    settings.SECRET_KEY_FALLBACKS = [old]
    assert deliver({"delivery": delivery.pk}, Attempt(2)) == {"code": 200}
    assert Delivery.objects.get().state == "sent"


def test_typed_anew_it_is_sealed_by_the_present_key(settings: Any) -> None:
    made = channel(url=URL, secret=SECRET)
    rekey(settings, keeps=False)

    typed = {"url": "https://new.example.org/", "secret": "new"}
    services.update(made, typed, version=1, actor="test")

    assert known() == ("https://new.example.org/", "new")


@pytest.mark.both
@pytest.mark.parametrize(("field", "most"), [("url", 1_000), ("secret", 200)])
def test_too_long_ones_are_refused(field: str, most: int) -> None:
    """On each database, before it is asked."""
    longest = {"url": "https://a.example/" + "x" * 982, "secret": "秘" * 200}
    channel("longest", **longest)
    assert Channel.objects.get().url == longest["url"]
    with pytest.raises(Invalid, match=f"at most {most} characters"):
        channel("longer", **{**longest, field: longest[field] + "x"})
