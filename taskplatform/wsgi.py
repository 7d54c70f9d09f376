"""The web entry point: `granian --interface wsgi taskplatform.wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application

from apps.common.middleware import ReadableHeaders

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
application = ReadableHeaders(get_wsgi_application())
