"""Django as a WSGI application, which `taskplatform.rsgi` runs in threads."""

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
_django = get_wsgi_application()

# The models that it imports need the settings above.
from apps.common.api.middleware import ReadableHeaders  # noqa: E402

# Loads the code of all pages, for which the first caller would wait.
get_resolver().url_patterns  # noqa: B018
# A search for garbage stops all requests: through all of this it takes 0.1 s, now and then.
gc.collect()
gc.freeze()
application = ReadableHeaders(_django)
