"""The platform's own texts for attempts that failed.

A text is stored with the job, in English. Pages find its template here, and show it in their
language.
"""

from __future__ import annotations

from apps.common.messages import Message
from apps.common.messages import Message as _

NO_REASON = _("it failed without saying why")
RESULT_LOST = _("The worker went offline before the result was stored.")
NO_HANDLER = _("No handler runs jobs of type {type} here.")
AS_ASKED = _("cancelled as asked for")
UNCHANGED = _(
    "it was put off {count} times in a row without a change of its stage, its context, its "
    "checkpoint or its time"
)
INTERRUPTED = _(
    "its worker stopped in the middle of it {count} times in a row, and it kept no checkpoint "
    "meanwhile; give it more time by JOB_STOP_SECONDS, or have it keep checkpoints"
)

# --- http_request, and channels of alerts over HTTP -----------------------------------------------
NO_METHOD = _("{method} is no method; use {methods}.")
ANSWERED = _("{host} answered {status}")
NO_ADDRESS = _("{url} is no address: {error}.")
NOT_OF_THE_WEB = _("{url} is no address of the web; write https://host/path.")
WITH_USER = _("An address with a user or password in it is not called; use headers.")
NOT_ALLOWED = _(
    "{host} port {port} is not allowed. Add it to {setting}, which has: {hosts}; then start anew."
)
PATH_NOT_QUOTED = _("The path of an address is ASCII without blanks; quote the rest with %.")
NOT_FOUND = _("{host} cannot be looked up: {error}")
NOT_PUBLIC = _(
    "{host} is at {address}, which is not public; name its network in JOB_HTTP_NETWORKS if it may "
    "be called."
)
NO_HEADERS = _("headers must be an object of texts.")
HEADER_OF_OURS = _("The header {name} is not for jobs to set.")
NO_HEADER = _("{name} is no name of a header.")
NO_VALUE = _(
    "The value of the header {name} has signs that a header cannot have, such as a line break at "
    "its end."
)
NOT_TRUSTED = _("{host} shows no certificate that is trusted: {error}")
TOO_LATE = _("{host} did not answer within {seconds} s")
BROKE_OFF = _("{host} broke off: {error}")
NOT_SENT = _("The request cannot be sent: {error}")

# --- management_command ---------------------------------------------------------------------------
NO_COMMAND = _("The command {name} is not allowed; JOB_COMMANDS has: {commands}.")

# --- Django's Tasks API ---------------------------------------------------------------------------
NO_APP = _("{path} is in no installed app.")
NO_TASK = _("There is no task {path}: {error}")
NOT_A_TASK = _("{path} is no task; decorate it with @task.")
NOT_OF_TASK = _("{type} is not the type of the task {path}; enqueue it in code.")

ALL = tuple(each for each in list(globals().values()) if isinstance(each, Message))
