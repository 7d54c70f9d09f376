"""The table of rights: from which role on each address of the admin opens. A new address gets its
row here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Each may what those before it may.
VIEWER, OPERATOR, CONFIGURER, SUPERUSER = ROLES = ("viewer", "operator", "configurer", "superuser")
NOBODY = "nobody"


class Rights(NamedTuple):
    """From which role on people may see the rows of a model, add one and delete one; and what else
    there is: actions by name, other pages by address."""

    see: str
    add: str = NOBODY
    delete: str = NOBODY
    others: Mapping[str, str] = {}


PAGES = {
    "": VIEWER,
    "activity/": VIEWER,
    "undo/": OPERATOR,
    "audit/": CONFIGURER,
    "bulk/new/<slug:kind>/<slug:verb>/": OPERATOR,
    "capacity/": VIEWER,
    "failures/": VIEWER,
    "governance/": VIEWER,
    "system/": VIEWER,
    "governance/<str:number>/": CONFIGURER,
    "overview/": VIEWER,
    "problems/": VIEWER,
    "problems/said/": OPERATOR,
    "reports/": VIEWER,
    "reports/csv/": VIEWER,
    "search/": VIEWER,
    "settings/": VIEWER,
    "signed-in/": VIEWER,
}
_STATE = {"pause": OPERATOR, "resume": OPERATOR}
_CSV = {"import/": OPERATOR, "export/": VIEWER}
_TASK = {
    **{**_STATE, **_CSV, "shift": OPERATOR, "copy": OPERATOR, "delete_task": OPERATOR},
    **{"add/said/": OPERATOR, "<int:pk>/said/": OPERATOR},
}
MODELS = {
    "access/apiclient/": Rights(
        VIEWER,
        add=CONFIGURER,
        others={"revoke": CONFIGURER, "<path:object_id>/rotate/": CONFIGURER},
    ),
    "alerts/alert/": Rights(VIEWER, others={"snooze_hour": OPERATOR, "snooze_shift": OPERATOR}),
    "alerts/alertrule/": Rights(VIEWER, add=CONFIGURER, delete=CONFIGURER),
    "alerts/channel/": Rights(
        VIEWER, add=CONFIGURER, delete=CONFIGURER, others={"<int:pk>/test/": CONFIGURER}
    ),
    "alerts/delivery/": Rights(VIEWER, others={"<int:pk>/live/": VIEWER}),
    "alerts/reportplan/": Rights(
        VIEWER,
        add=OPERATOR,
        delete=OPERATOR,
        others={"send_now": OPERATOR, "pause": OPERATOR, "resume": OPERATOR},
    ),
    "auth/group/": Rights(SUPERUSER, add=SUPERUSER, delete=SUPERUSER),
    "auth/user/": Rights(
        SUPERUSER, add=SUPERUSER, delete=SUPERUSER, others={"<id>/password/": SUPERUSER}
    ),
    "axes/accessattempt/": Rights(SUPERUSER, delete=SUPERUSER),
    "axes/accesslog/": Rights(SUPERUSER),
    "dispatch/archiveddispatch/": Rights(VIEWER, others={"export/": VIEWER}),
    "dispatch/archivedtask/": Rights(VIEWER, others={"restore": OPERATOR}),
    "bulk/bulkrun/": Rights(
        VIEWER,
        others={
            **{"stop_run": OPERATOR, "continue_run": OPERATOR},
            **{"<int:pk>/live/": VIEWER, "<int:pk>/csv/": VIEWER},
        },
    ),
    "dispatch/dispatch/": Rights(
        VIEWER,
        others={
            **{"release": OPERATOR, "expire": OPERATOR, "cancel": OPERATOR, "export/": VIEWER},
            "ask_again": OPERATOR,
            "<int:pk>/give/": OPERATOR,
        },
    ),
    "dispatch/executor/": Rights(
        VIEWER,
        add=OPERATOR,
        delete=CONFIGURER,
        others={
            **{"enable": OPERATOR, "disable": OPERATOR, **_CSV},
            **{"names/": VIEWER, "explain/": VIEWER, "<int:pk>/why/": VIEWER},
        },
    ),
    "dispatch/oncetask/": Rights(VIEWER, add=OPERATOR, others=_TASK),
    "dispatch/rotatetask/": Rights(VIEWER, add=OPERATOR, others=_TASK),
    "dispatch/template/": Rights(
        VIEWER,
        add=CONFIGURER,
        delete=CONFIGURER,
        others={"retire": CONFIGURER, "activate": CONFIGURER},
    ),
    "flows/flow/": Rights(
        VIEWER,
        add=CONFIGURER,
        others={
            **{"retire": CONFIGURER, "activate": CONFIGURER},
            **{"<int:pk>/": VIEWER, "<int:pk>/start/": OPERATOR},
        },
    ),
    "flows/flowrun/": Rights(
        VIEWER,
        others={
            **_STATE,
            **{"retry": OPERATOR, "stop": OPERATOR, "stop_by_force": CONFIGURER},
            **{"skip": CONFIGURER, "finish": CONFIGURER, "export/": VIEWER},
            **{"<int:pk>/live/": VIEWER, "<int:pk>/results/": OPERATOR},
        },
    ),
    "jobs/archivedjob/": Rights(
        VIEWER,
        others={
            **{"retry": OPERATOR, "retry_on_host": OPERATOR, "export/": VIEWER},
            **{"<int:pk>/log/": OPERATOR, "<int:pk>/retry/": OPERATOR},
        },
    ),
    "jobs/job/": Rights(
        VIEWER,
        add=OPERATOR,
        others={
            **{"retry": OPERATOR, "run_now": OPERATOR, "cancel": OPERATOR},
            **{"retry_on_host": OPERATOR, "force_cancel": CONFIGURER, "mark_done": CONFIGURER},
            **{"<int:pk>/edit/": OPERATOR, "group/<slug:name>/": OPERATOR, "export/": VIEWER},
            **{"<int:pk>/live/": VIEWER, "<int:pk>/log/": OPERATOR, "<int:pk>/retry/": OPERATOR},
        },
    ),
    "jobs/jobtype/": Rights(
        VIEWER,
        add=CONFIGURER,
        delete=CONFIGURER,
        others={
            **{**_STATE, "reset_breaker": OPERATOR, "handlers/": VIEWER, "pools/": VIEWER},
            "<int:pk>/rebuild/": OPERATOR,
            "<int:pk>/now/": VIEWER,
            "take_code": CONFIGURER,
        },
    ),
    "jobs/inboxrow/": Rights(VIEWER, others={"discard": OPERATOR}),
    "jobs/worker/": Rights(
        VIEWER,
        others={
            **{"quiet": OPERATOR, "resume": OPERATOR},
            **{"running/": VIEWER, "slices/": VIEWER, "asyncflow/": VIEWER},
        },
    ),
    "schedules/schedule/": Rights(
        VIEWER,
        add=OPERATOR,
        others={**_STATE, "run_now": OPERATOR, "copy": OPERATOR, "delete": OPERATOR},
    ),
    "journal/journalentry/": Rights(VIEWER, others={"export/": VIEWER}),
    "journal/sink/": Rights(VIEWER, others={"pause": CONFIGURER, "resume": CONFIGURER}),
    "journal/sinkreject/": Rights(VIEWER),
}
# Of Django or without content, for everybody who has signed in or is about to; and what takes
# nothing but POST.
FRAME = {
    *("login/", "logout/", "password_change/", "password_change/done/", "jsi18n/", "(?P<url>.*)$"),
    *("autocomplete/", "r/<path:content_type_id>/<path:object_id>/"),
    "dispatch/executor/<int:pk>/rebuild/",
}
