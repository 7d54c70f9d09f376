"""Django as a WSGI application, which `taskplatform.rsgi` runs in threads."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
_django = get_wsgi_application()

# The models that it imports need the settings above.
from apps.common.api.middleware import ReadableHeaders  # noqa: E402

application = ReadableHeaders(_django)
