"""The web entry point: `granian --interface wsgi taskplatform.wsgi:application`."""

import os

import django
from django.conf import settings
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, reset_queries
from granian.utils.proxies import wrap_wsgi_with_proxy_headers

from apps.common.middleware import ReadableHeaders
from taskplatform.garbage import collect_rarely
from taskplatform.handler import Handler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
django.setup(set_prefix=False)
application = ReadableHeaders(Handler())
if settings.TRUSTED_PROXIES:
    application = wrap_wsgi_with_proxy_headers(application, settings.TRUSTED_PROXIES)

collect_rarely()

# Of what Django does around each request, some is never needed here: neither cache is closed in
# between, every request begins with the addresses of the settings, connections have no age and are
# looked at when a request is over, and queries are only kept to be read. It is a tenth of an empty
# answer.
request_finished.disconnect(close_caches)
request_finished.disconnect(reset_urlconf)
request_started.disconnect(close_old_connections)
if not settings.DEBUG:
    request_started.disconnect(reset_queries)
