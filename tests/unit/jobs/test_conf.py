"""Invalid settings stop the start with a message that names what is allowed."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.jobs.conf import JobsConf


def test_hosts_that_jobs_may_call(subtests: pytest.Subtests) -> None:
    for text, hosts in (
        ("", ()),
        ("api.example.com", ("api.example.com",)),
        ("*.example.com, Host:8443 ,10.0.0.5:1", ("*.example.com", "Host:8443", "10.0.0.5:1")),
        ("a:65535", ("a:65535",)),
    ):
        with subtests.test(text=text):
            assert JobsConf.JOB_HTTP_HOSTS.read(text) == hosts


def test_what_is_no_host_is_refused_with_an_example(subtests: pytest.Subtests) -> None:
    for text in (*"host:abc host: host:0 host:65536 https://host host/path * a.*.b".split(), "a b"):
        with subtests.test(text=text):
            with pytest.raises(ImproperlyConfigured, match=r"is no host.*api\.example\.com"):
                JobsConf.JOB_HTTP_HOSTS.read(f"good.example.com,{text}")


def test_nothing_is_forgotten_before_it_is_in_the_archive(subtests: pytest.Subtests) -> None:
    """S1.19: the start stops, and says what to do."""
    for given in (
        {"JOB_RETENTION": "7d"},
        {"JOB_RETENTION": "12h", "JOB_ARCHIVE_AFTER": "1d"},
        {"JOB_ARCHIVE_AFTER": "400d"},
    ):
        with subtests.test(given=given):
            with pytest.raises(
                ImproperlyConfigured, match="raise the first, lower the second, or set"
            ):
                JobsConf.from_environment(given)


@pytest.mark.parametrize(
    "given", [{"JOB_RETENTION": "0"}, {"JOB_RETENTION": "8d"}, {"JOB_ARCHIVE_AFTER": "1h"}]
)
def test_longer_than_until_the_archive_is_fine(given: dict[str, str]) -> None:
    JobsConf.from_environment(given)


def test_reports_are_repeatable_for_an_hour_at_least() -> None:
    """S4.16."""
    with pytest.raises(ImproperlyConfigured, match="out of range"):
        JobsConf.from_environment({"JOB_ARCHIVE_AFTER": "59m"})
