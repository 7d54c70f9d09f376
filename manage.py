#!/usr/bin/env python
"""Django's command line for the task platform."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # A wrong setting is for the operator to mend, who has no use for a traceback.
        sys.exit(str(error))


if __name__ == "__main__":
    main()
