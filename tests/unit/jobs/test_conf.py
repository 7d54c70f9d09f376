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
