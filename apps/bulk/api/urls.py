from django.urls import path

from apps.bulk.api.bulk import (
    BulkRowsView,
    BulkRunView,
    ContinueView,
    DispatchesBulkView,
    JobsBulkView,
    OnceTasksBulkView,
    RotateTasksBulkView,
    StopView,
    UndoView,
)

urlpatterns = [
    path("dispatches/bulk/", DispatchesBulkView.as_view()),
    path("once-tasks/bulk/", OnceTasksBulkView.as_view()),
    path("rotate-tasks/bulk/", RotateTasksBulkView.as_view()),
    path("jobs/bulk/", JobsBulkView.as_view()),
    path("bulk/<str:number>/", BulkRunView.as_view()),
    path("bulk/<str:number>/rows/", BulkRowsView.as_view()),
    path("bulk/<str:number>/stop/", StopView.as_view()),
    path("bulk/<str:number>/continue/", ContinueView.as_view()),
    path("undo/<str:act>/", UndoView.as_view()),
]
