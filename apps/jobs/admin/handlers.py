"""Handlers: what this installation runs in-house, and how a program elsewhere works on jobs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import django
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import shown_text, translate
from apps.jobs.handlers import registry
from apps.jobs.models import JobType

URL = "jobs_jobtype_handlers"
MAX_SHOWN_TYPES = 10

_HANDLER = """# shop/handlers.py, with EXTRA_APPS=shop in .env
from apps.jobs.handlers import Fail, handler


@handler("mail", max_attempts=5)
def mail(context):
    if "@" not in context["to"]:
        raise Fail("no address")  # final; any other exception is retried
    return {"sent": send(context["to"])}"""

_CURL = """# once, with a key of scope operate or in the admin: a job type without a handler
KEY=$(.venv/bin/python manage.py apiclient create "My worker" --scope hold --type video)
call() {
  curl -s -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
    %(api)s/jobs/$1/ -d "$2"
}
call hold '{"worker":"pi-1","types":["video"],"limit":1}'
# with the id and the lease_token that it returned:
call heartbeat '{"worker":"pi-1","leases":[{"id":"7","lease_token":"8c1f","progress":40}]}'
call settle '{"worker":"pi-1","outcomes":[
  {"id":"7","lease_token":"8c1f","outcome":"succeeded","result":{"seconds":90}}]}'"""

_SDK = """# worker.py beside a copy of taskplatform/sdk.py; Python 3.9 or later, nothing to install
from sdk import Worker

worker = Worker("%(site)s", "<client-id>.<secret>")


@worker.handler("video")
def video(job):
    for n in range(job.saved or 0, job.context["parts"]):
        render(n)
        job.checkpoint(n + 1, progress=100 * n / job.context["parts"])
    return {"parts": job.context["parts"]}


worker.run()  # until SIGTERM"""

_TASKS = """# shop/tasks.py, with EXTRA_APPS=shop in .env%s


@task(priority=10)
def send_receipt(order_id: int) -> str: ...


send_receipt.enqueue(order.pk)  # a job of type shop.send_receipt, in your transaction"""

_NEEDED = (
    "\nfrom django.tasks import task"
    if django.VERSION >= (6,)
    else "; pip install 'django-tasks>=0.12,<0.13'\nfrom django_tasks import task"
)


def handlers_view(request: HttpRequest, *, model_admin: Any) -> HttpResponse:
    """The handlers of this installation with their types, and the ways to connect others."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    site = request.build_absolute_uri("/").rstrip("/")
    types: dict[str, list[dict[str, str]]] = defaultdict(list)
    rows = JobType.objects.visible_to(request.user).order_by("name")
    for pk, name, handler in rows.values_list("pk", "name", "handler"):
        types[handler].append({"name": name, "url": model_admin.change_url(pk)})
    page: HttpResponse = model_admin.page(
        request,
        "admin/handlers.html",
        title=_("Handlers"),
        handlers=[
            _shown(entry, types[name])
            for name, entry in sorted(registry.known.handlers.items())
            if types[name] or not (entry.of_many or entry.when_needed)
        ],
        outside=_listed(types[""]),
        ways=[
            {"title": _("A function in-house"), "id": "in-house", "code": _HANDLER},
            {
                "title": _("Any language, over HTTP"),
                "id": "http",
                "code": _CURL % {"api": f"{site}/api/v1"},
            },
            {
                "title": _("Python on another machine"),
                "id": "sdk",
                "code": _SDK % {"site": site},
            },
            {"title": _("Django's Tasks API"), "id": "tasks", "code": _TASKS % _NEEDED},
        ],
    )
    return page


def _shown(handler: registry.Handler, types: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "name": handler.name,
        "location": handler.location,
        "about": shown_text(translate(handler.about), limit=160),
        **_listed(types),
    }


def _listed(types: list[dict[str, str]]) -> dict[str, Any]:
    return {"types": types[:MAX_SHOWN_TYPES], "more": max(0, len(types) - MAX_SHOWN_TYPES)}
