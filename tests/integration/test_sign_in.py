"""Sign-ins are limited by name, by address, by device and by what they cost."""

from __future__ import annotations

import gzip
import re
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from apps.common.api.problems import REFUSED
from apps.common.errors import Unavailable
from taskplatform import sign_ins
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db
PASSWORD = "correct-Horse-7"


@pytest.fixture(autouse=True)
def few(settings: Any) -> None:
    settings.SIGN_IN_LIMIT = 3
    cache.clear()


@pytest.fixture(autouse=True)
def olga(db: None) -> User:
    return User.objects.create_user("olga", password=PASSWORD, is_staff=True)


def sign_in(client: Client, name: str, password: str, address: str = "192.0.2.1") -> Any:
    fields = {"username": name, "password": password}
    return client.post("/admin/login/", fields, REMOTE_ADDR=address)


def knows(client: Client, name: str = "olga") -> Client:
    """The same browser after that name has signed in there and out again."""
    assert sign_in(client, name, PASSWORD, "192.0.2.200").status_code == 302
    client.post("/admin/logout/")
    return client


def test_language_that_is_chosen_stays_from_before_the_sign_in_until_another_is_chosen(
    client: Client, olga: User
) -> None:
    olga.is_superuser = True
    olga.save()
    begin = "/admin/login/?next=/admin/dispatch/oncetask/%3Fstatus%3Dpaused"
    for address, code, said in (
        (begin, "zh-hans", "登录"),
        (begin, "en", "Log in"),
        (begin, "zh-hans", "登录"),
    ):
        form = {**form_of(client.get(address), "next"), "language": code}
        assert said in text_of(client.post("/i18n/setlang/", form, follow=True))
    fields = {"username": "olga", "password": PASSWORD}
    page = client.post(begin, {**form_of(client.get(begin), "username"), **fields}, follow=True)
    assert page.redirect_chain[-1][0] == "/admin/dispatch/oncetask/?status=paused"
    assert "未找到结果" in text_of(page)
    client.post("/admin/logout/")
    assert "登录" in text_of(client.get("/admin/login/"))


def use_up(name: str = "olga", start: int = 0) -> None:
    for number in range(start, start + 3):
        sign_in(Client(), name, "wrong", f"192.0.2.{number}")


def test_name_waits_on_devices_where_it_never_signed_in(client: Client, frozen_clock: Any) -> None:
    """Axes locks a name for one address; a thousand addresses are no thousand chances."""
    use_up()

    answer = sign_in(client, "OLGA ", PASSWORD, "192.0.2.99")

    assert answer.status_code == 429
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert "Wait a minute" in text_of(answer)
    frozen_clock.advance(seconds=60)
    assert sign_in(client, "olga", PASSWORD, "192.0.2.99").status_code == 302


def test_nobody_is_kept_out_of_a_device_where_they_signed_in(
    client: Client, frozen_clock: Any, settings: Any, subtests: Any
) -> None:
    settings.SIGN_IN_LIMIT = 6
    knows(client)
    frozen_clock.advance(seconds=60)

    with subtests.test("wrong tries from everywhere, and from the same address"):
        for number in range(12):
            sign_in(Client(), "olga", "wrong", f"192.0.2.{number % 2}")
        assert sign_in(Client(), "olga", PASSWORD, "192.0.2.0").status_code == 429
        assert sign_in(client, "olga", PASSWORD, "192.0.2.0").status_code == 302
    client.post("/admin/logout/")
    with subtests.test("the device has a limit of its own"):
        frozen_clock.advance(seconds=60)
        tries = [sign_in(client, "olga", "wrong").status_code for _ in range(6)]
        assert tries == [200] * 5 + [429]
        assert sign_in(client, "olga", PASSWORD).status_code == 429
    with subtests.test("another name is not known there"):
        User.objects.create_user("vera", password=PASSWORD, is_staff=True)
        frozen_clock.advance(seconds=60)
        use_up("vera", 20)
        use_up("vera", 30)
        assert sign_in(client, "vera", PASSWORD, "192.0.2.77").status_code == 429
    with subtests.test("a forged cookie knows nobody"):
        use_up("olga", 40)
        use_up("olga", 50)
        forger = Client()
        forger.cookies["device"] = client.cookies["device"].value[:-1] + "-"
        assert sign_in(forger, "olga", PASSWORD, "192.0.2.77").status_code == 429


def test_only_compared_passwords_count(
    frozen_clock: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of a form that is not complete, nor those that axes refuses."""
    settings.SIGN_IN_LIMIT = 8
    compared = []
    check = User.check_password
    monkeypatch.setattr(User, "check_password", lambda *a: bool(compared.append(1) or check(*a)))
    for _ in range(9):
        sign_in(Client(), "olga", "", "192.0.2.1")
        sign_in(Client(), "olga", "wrong", "192.0.2.2")
    assert len(compared) == settings.AXES_FAILURE_LIMIT

    assert sign_in(Client(), "olga", PASSWORD, "192.0.2.3").status_code == 302


@pytest.mark.both
def test_spellings_of_a_name_are_one_to_the_limit(frozen_clock: Any, subtests: Any) -> None:
    User.objects.create_user("\U0001f525ren\xe9e", password=PASSWORD, is_staff=True)
    spellings = ["\U0001f525ren\xe9e", "\U0001f525RENEE ", "\U0001f525Ren\xe9E"]
    for number, name in enumerate(spellings):
        sign_in(Client(), name, "wrong", f"192.0.2.{number}")

    for number, name in enumerate(spellings):
        with subtests.test(name=name):
            assert sign_in(Client(), name, "wrong", f"192.0.2.{10 + number}").status_code == 429


def test_address_waits_for_every_name(client: Client, frozen_clock: Any) -> None:
    for number in range(3):
        sign_in(client, f"name-{number}", "wrong")

    assert sign_in(client, "olga", PASSWORD).status_code == 429
    assert sign_in(client, "olga", PASSWORD, "192.0.2.2").status_code == 302


def test_refused_password_is_not_hashed(
    client: Client, frozen_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        sign_in(client, "olga", "wrong", "192.0.2.1")
    monkeypatch.setattr(User, "check_password", lambda *given: 1 / 0)

    assert sign_in(client, "olga", PASSWORD).status_code == 429


def test_limit_is_asked_without_a_turn_and_without_counting(
    client: Client, frozen_clock: Any
) -> None:
    """As the web server does, before the thread of the hashes."""
    knows(client)
    known = f"device={client.cookies['device'].value}"
    body = urlencode({"username": "olga", "password": "x"}).encode()

    def refusal(cookie: str = "", length: int = len(body)) -> int:
        environ = {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(length)}
        found = sign_ins.refusal(environ | {"REMOTE_ADDR": "192.0.2.9", "HTTP_COOKIE": cookie})
        return found.status if found else 0

    assert refusal(length=sign_ins.MAX_BYTES + 1) == 413
    frozen_clock.advance(seconds=60)
    use_up()
    assert [refusal() for _ in range(5)] == [429] * 5
    assert refusal(known) == 0
    frozen_clock.advance(seconds=60)
    assert [refusal() for _ in range(5)] == [0] * 5


def test_old_password_of_the_change_form_is_limited(
    client: Client, olga: User, frozen_clock: Any
) -> None:
    client.force_login(olga, backend="django.contrib.auth.backends.ModelBackend")
    new = {"new_password1": "brand-new-Horse-8", "new_password2": "brand-new-Horse-8"}

    def change(old: str) -> int:
        return client.post("/admin/password_change/", {"old_password": old, **new}).status_code

    assert [change("wrong") for _ in range(3)] == [200, 200, 200]
    assert change(PASSWORD) == 429
    olga.refresh_from_db()
    assert olga.check_password(PASSWORD)
    frozen_clock.advance(seconds=60)
    assert change(PASSWORD) == 302


def test_sign_in_that_finds_no_place_is_told_to_try_again(client: Client) -> None:
    """The server refuses those who would wait too long for the hash of their password."""
    refused: dict[str, Any] = {REFUSED: Unavailable("Too many at once.", retry_after=3)}
    answer = client.post("/admin/login/", {"username": "olga"}, **refused)

    assert answer.status_code == 503
    assert answer["Retry-After"] == "3"
    assert "Try again in some seconds" in text_of(answer)


def test_token_of_a_form_is_another_one_in_each_answer(client: Client, settings: Any) -> None:
    """Else the length of compressed answers could tell it, letter by letter."""
    pages = [client.get("/admin/login/", headers={"Accept-Encoding": "gzip"}) for _ in range(2)]
    texts = [gzip.decompress(page.content).decode() for page in pages]
    tokens = [re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', text) for text in texts]

    assert tokens[0] and {*tokens[0]}.isdisjoint(tokens[1])
    assert client.cookies["csrftoken"].value not in texts[0]
    assert settings.SESSION_COOKIE_SAMESITE == "Lax"
