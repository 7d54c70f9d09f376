from django.urls import path

from apps.schedules.api.schedules import (
    PauseScheduleView,
    ResumeScheduleView,
    RunScheduleView,
    ScheduleRunsView,
    SchedulesView,
    ScheduleView,
)

urlpatterns = [
    path("schedules/", SchedulesView.as_view()),
    path("schedules/<int:pk>/", ScheduleView.as_view()),
    path("schedules/<int:pk>/pause/", PauseScheduleView.as_view()),
    path("schedules/<int:pk>/resume/", ResumeScheduleView.as_view()),
    path("schedules/<int:pk>/run/", RunScheduleView.as_view()),
    path("schedules/<int:pk>/runs/", ScheduleRunsView.as_view()),
]
