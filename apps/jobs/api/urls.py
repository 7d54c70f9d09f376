from django.urls import path

from apps.jobs.api.control import CancelView, JobView, MarkDoneView, RetryView, RunNowView
from apps.jobs.api.jobs import JobsView, JournalView
from apps.jobs.api.types import JobTypesView, JobTypeView
from apps.jobs.api.work import HeartbeatView, HoldView, SettleView
from apps.jobs.api.workers import LeaveView, RegisterView, WorkerHeartbeatView

urlpatterns = [
    path("jobs/", JobsView.as_view()),
    path("jobs/hold/", HoldView.as_view()),
    path("jobs/settle/", SettleView.as_view()),
    path("jobs/heartbeat/", HeartbeatView.as_view()),
    path("workers/register/", RegisterView.as_view()),
    path("workers/heartbeat/", WorkerHeartbeatView.as_view()),
    path("workers/leave/", LeaveView.as_view()),
    path("jobs/<str:number>/", JobView.as_view()),
    path("jobs/<str:number>/journal/", JournalView.as_view()),
    path("jobs/<str:number>/cancel/", CancelView.as_view()),
    path("jobs/<str:number>/retry/", RetryView.as_view()),
    path("jobs/<str:number>/run-now/", RunNowView.as_view()),
    path("jobs/<str:number>/mark-done/", MarkDoneView.as_view()),
    path("job-types/", JobTypesView.as_view()),
    path("job-types/<path:name>/", JobTypeView.as_view()),
]
