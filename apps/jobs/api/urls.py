from django.urls import path

from apps.jobs.api.control import CancelView, JobView, MarkDoneView, RetryView, RunNowView
from apps.jobs.api.jobs import JobsView, JournalView
from apps.jobs.api.log import LogView
from apps.jobs.api.pools import (
    AssignView,
    CheckView,
    DoneView,
    FailView,
    PoolView,
    RebuildView,
    ReleaseView,
)
from apps.jobs.api.types import JobTypesView, JobTypeView
from apps.jobs.api.work import HeartbeatView, HoldView, SettleView
from apps.jobs.api.workers import LeaveView, RegisterView, WorkerHeartbeatView, WorkersView

urlpatterns = [
    path("jobs/", JobsView.as_view()),
    path("jobs/hold/", HoldView.as_view()),
    path("jobs/settle/", SettleView.as_view()),
    path("jobs/heartbeat/", HeartbeatView.as_view()),
    path("workers/", WorkersView.as_view()),
    path("workers/register/", RegisterView.as_view()),
    path("workers/heartbeat/", WorkerHeartbeatView.as_view()),
    path("workers/leave/", LeaveView.as_view()),
    path("jobs/<str:number>/", JobView.as_view()),
    path("jobs/<str:number>/journal/", JournalView.as_view()),
    path("jobs/<str:number>/log/", LogView.as_view()),
    path("jobs/<str:number>/cancel/", CancelView.as_view()),
    path("jobs/<str:number>/retry/", RetryView.as_view()),
    path("jobs/<str:number>/run-now/", RunNowView.as_view()),
    path("jobs/<str:number>/mark-done/", MarkDoneView.as_view()),
    path("pools/<str:name>/", PoolView.as_view()),
    path("pools/<str:name>/assign/", AssignView.as_view()),
    path("pools/<str:name>/check/", CheckView.as_view()),
    path("pools/<str:name>/done/", DoneView.as_view()),
    path("pools/<str:name>/fail/", FailView.as_view()),
    path("pools/<str:name>/release/", ReleaseView.as_view()),
    path("pools/<str:name>/rebuild/", RebuildView.as_view()),
    path("job-types/", JobTypesView.as_view()),
    path("job-types/<path:name>/", JobTypeView.as_view()),
]
