"""The web entry point: `granian --interface wsgi taskplatform.wsgi:application`."""

import os

from django.conf import settings
from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import reset_queries

from apps.common.middleware import ReadableHeaders
from taskplatform.garbage import collect_rarely

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
application = ReadableHeaders(get_wsgi_application())

collect_rarely()

# Neither cache is closed between requests, and queries are only kept to be looked at: to ask for
# both at each request takes a twentieth of an empty answer.
request_finished.disconnect(close_caches)
if not settings.DEBUG:
    request_started.disconnect(reset_queries)
