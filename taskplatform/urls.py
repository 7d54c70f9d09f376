"""Every URL of the platform."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponseRedirect
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerSplitView

from apps.alerts.metrics import alerts
from apps.asyncflow.admin import asyncflow_page
from apps.bulk.admin.plan_page import plan_page
from apps.bulk.admin.undo_page import UNDO_URL, undo_page
from apps.common.admin.preferences_page import PREFERENCES_URL, preferences

# Django finds the handlers by these names.
from apps.common.api.problems import handler400, handler403, handler404, handler500  # noqa: F401
from apps.jobs.admin.type_tabs import NOW_URL
from apps.reports.admin import capacity as capacity_page
from apps.reports.admin import failures, governance
from apps.reports.admin import pages as report_pages
from apps.reports.admin.job_type.page import job_type_page
from apps.reports.admin.overview.page import OVERVIEW_URL, refreshed
from apps.reports.admin.overview.remarks import REMARK_URL, remark_on_problems
from apps.reports.admin.problems.page import PROBLEMS_URL, problems_page
from apps.reports.metrics import MetricsView
from taskplatform import audit_page, health, system_page
from taskplatform.activity import ACTIVITY_URL, activity
from taskplatform.openapi import DocumentView
from taskplatform.site import AUDIT_URL, SIGNED_IN_URL, signed_in


def favicon(request: HttpRequest) -> HttpResponseRedirect:
    """Browsers request this URL for pages without an icon, such as JSON."""
    return HttpResponseRedirect(static("taskplatform/favicon.svg"))


# Only processes that answer requests have pages: see `taskplatform.apps`.
admin.autodiscover()

urlpatterns = [
    # Before those whose numbers would take its addresses.
    path("api/v1/", include("apps.bulk.api.urls")),
    # Then these, because they are asked for most.
    path("api/v1/", include("apps.dispatch.api.urls")),
    path("api/v1/", include("apps.jobs.api.urls")),
    path("api/v1/", include("apps.schedules.api.urls")),
    path("api/v1/", include("apps.flows.api.urls")),
    path("api/v1/", include("apps.reports.api.urls")),
    path("asyncflow/", include("apps.asyncflow.urls")),
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("favicon.ico", favicon),
    # Before admin.site.urls, which would answer them with 404.
    path("admin/audit/", admin.site.admin_view(audit_page.audit), name=AUDIT_URL),
    path("admin/reports/", admin.site.admin_view(report_pages.report), name="report"),
    path("admin/reports/csv/", admin.site.admin_view(report_pages.report_csv), name="report_csv"),
    path(
        "admin/bulk/new/<slug:kind>/<slug:verb>/",
        admin.site.admin_view(plan_page),
        name="bulk_new",
    ),
    path("admin/activity/", admin.site.admin_view(activity), name=ACTIVITY_URL),
    path("admin/undo/", admin.site.admin_view(undo_page), name=UNDO_URL),
    path("admin/failures/", admin.site.admin_view(failures.failures_page), name="failures"),
    path("admin/capacity/", admin.site.admin_view(capacity_page.capacity_page), name="capacity"),
    path("admin/governance/", admin.site.admin_view(governance.governance), name="governance"),
    path(
        "admin/governance/<str:number>/",
        admin.site.admin_view(governance.fix),
        name="governance_fix",
    ),
    path("admin/overview/", admin.site.admin_view(refreshed), name=OVERVIEW_URL),
    path("admin/problems/", admin.site.admin_view(problems_page), name=PROBLEMS_URL),
    path("admin/problems/said/", admin.site.admin_view(remark_on_problems), name=REMARK_URL),
    path("admin/system/", admin.site.admin_view(system_page.system), name="system"),
    path("admin/signed-in/", admin.site.admin_view(signed_in), name=SIGNED_IN_URL),
    path("admin/settings/", admin.site.admin_view(preferences), name=PREFERENCES_URL),
    path(
        "admin/jobs/jobtype/<int:pk>/now/",
        admin.site.admin_view(job_type_page),
        name=NOW_URL,
    ),
    path("admin/jobs/worker/asyncflow/", admin.site.admin_view(asyncflow_page), name="asyncflow"),
    path("admin/", admin.site.urls),
    # Sets the language that a person chooses in the menu.
    path("i18n/", include("django.conf.urls.i18n")),
    path("api/schema/", DocumentView.as_view(), name="schema"),
    # The split view has its script in a file of its own, as the Content-Security-Policy requires.
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    path("health/live", health.live, name="live"),
    path("health/ready", health.ready, name="ready"),
    path("metrics", MetricsView.as_view(others=(alerts,)), name="metrics"),
]
