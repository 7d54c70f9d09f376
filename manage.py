#!/usr/bin/env python
"""Django's command line for the task platform."""

import io
import os
import sys

# Commands that work on what a platform has stored; the others may come before it.
OF_A_PLATFORM = {
    "apiclient",
    "audit",
    "changepassword",
    "createsuperuser",
    "demo",
    "rebuild_reports",
    "resend_journal",
    "roll_tables",
}
# As a shell says of a program that ends by SIGPIPE.
ENDED_BY_PIPE = 141


def main() -> None:
    if sys.argv[1:3] == ["serve", "--plan"]:
        from taskplatform.supervise import main as supervise

        sys.exit(supervise(sys.argv[3]))
    # A terminal or a file that cannot take a letter has a question mark.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
    except ModuleNotFoundError:
        sys.exit(
            f"{sys.executable} has no Django. Run `make run` once, which makes .venv, then "
            f"use .venv/bin/python manage.py {' '.join(sys.argv[1:])}"
        )
    from django.core.management import execute_from_command_line
    from django.db import Error as DatabaseError

    from apps.common.acting import acting
    from taskplatform.conf import require_platform

    command = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        if command in OF_A_PLATFORM and not {"-h", "--help"} & set(sys.argv):
            require_platform(command)
        with acting("shell"):
            execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # A wrong setting is for the operator to mend, who has no use for a traceback.
        sys.exit(str(error))
    except DatabaseError:
        from taskplatform.startup import database_problem

        if problem := database_problem(command):
            sys.exit(problem)
        raise
    except BrokenPipeError:
        # As `| head` does. Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(ENDED_BY_PIPE)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
