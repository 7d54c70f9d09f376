from django.urls import path

from apps.dispatch.api.dispatches import (
    AskAgainView,
    CancelView,
    DispatchesView,
    DispatchView,
    HandOverView,
)
from apps.dispatch.api.executors import ExecutorsView, ExecutorView, MembersView
from apps.dispatch.api.explain import ExplainView
from apps.dispatch.api.preview import PreviewView
from apps.dispatch.api.pull import CallbackView, ExtendView, PullView, ReleaseView
from apps.dispatch.api.tasks import (
    ArchivedTasksView,
    OnceTaskRestoreView,
    OnceTasksView,
    OnceTaskView,
    RotateTaskRestoreView,
    RotateTasksView,
    RotateTaskView,
)
from apps.dispatch.api.templates import TemplatesView, TemplateView
from apps.dispatch.api.what_if import (
    OnceTaskWhatIfNewView,
    OnceTaskWhatIfView,
    RotateTaskWhatIfNewView,
    RotateTaskWhatIfView,
)

urlpatterns = [
    path("dispatch/", PullView.as_view()),
    path("callback/", CallbackView.as_view()),
    path("dispatch/extend/", ExtendView.as_view()),
    path("dispatch/release/", ReleaseView.as_view()),
    path("dispatches/", DispatchesView.as_view()),
    path("dispatches/<str:number>/", DispatchView.as_view()),
    path("dispatches/<str:number>/cancel/", CancelView.as_view()),
    path("dispatches/<str:number>/hand-over/", HandOverView.as_view()),
    path("dispatches/<str:number>/ask-again/", AskAgainView.as_view()),
    path("executors/", ExecutorsView.as_view()),
    path("executors/<str:name>/", ExecutorView.as_view()),
    path("executors/<str:name>/members/", MembersView.as_view()),
    path("executors/<str:name>/preview/", PreviewView.as_view()),
    path("explain/", ExplainView.as_view()),
    path("templates/", TemplatesView.as_view()),
    path("templates/<path:name>/", TemplateView.as_view()),
    path("archived-tasks/", ArchivedTasksView.as_view()),
    path("once-tasks/", OnceTasksView.as_view()),
    path("once-tasks/what-if/", OnceTaskWhatIfNewView.as_view()),
    path("once-tasks/<int:pk>/", OnceTaskView.as_view()),
    path("once-tasks/<int:pk>/restore/", OnceTaskRestoreView.as_view()),
    path("once-tasks/<int:pk>/what-if/", OnceTaskWhatIfView.as_view()),
    path("rotate-tasks/", RotateTasksView.as_view()),
    path("rotate-tasks/what-if/", RotateTaskWhatIfNewView.as_view()),
    path("rotate-tasks/<int:pk>/", RotateTaskView.as_view()),
    path("rotate-tasks/<int:pk>/restore/", RotateTaskRestoreView.as_view()),
    path("rotate-tasks/<int:pk>/what-if/", RotateTaskWhatIfView.as_view()),
]
