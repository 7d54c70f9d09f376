"""Invalid settings stop the start with a message that names what is allowed."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.jobs.conf import JobsConf


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("api.example.com", ("api.example.com",)),
        ("*.example.com, Host:8443 ,10.0.0.5:1", ("*.example.com", "Host:8443", "10.0.0.5:1")),
        ("a:65535", ("a:65535",)),
    ],
)
def test_hosts_that_jobs_may_call(text: str, hosts: tuple[str, ...]) -> None:
    assert JobsConf.JOB_HTTP_HOSTS.read(text) == hosts


@pytest.mark.parametrize(
    "text",
    ["host:abc", "host:", "host:0", "host:65536", "https://host", "host/path", "*", "a.*.b", "a b"],
)
def test_what_is_no_host_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"is no host.*api\.example\.com"):
        JobsConf.JOB_HTTP_HOSTS.read(f"good.example.com,{text}")
