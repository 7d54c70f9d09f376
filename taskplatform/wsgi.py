"""The web entry point: `granian --interface wsgi taskplatform.wsgi:application`."""

import gc
import os

from django.core.wsgi import get_wsgi_application

from apps.common.middleware import ReadableHeaders

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
application = ReadableHeaders(get_wsgi_application())

# What stands now stays, and a call leaves few cycles behind: collected every 700 objects, as Python
# does by default, they cost an empty answer a seventh of its time.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 50)
