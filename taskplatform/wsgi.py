"""The web entry point: `granian --interface wsgi taskplatform.wsgi:application`."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from granian.utils.proxies import wrap_wsgi_with_proxy_headers

from apps.common.middleware import ReadableHeaders

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
application = ReadableHeaders(get_wsgi_application())
if settings.TRUSTED_PROXIES:
    application = wrap_wsgi_with_proxy_headers(application, settings.TRUSTED_PROXIES)
