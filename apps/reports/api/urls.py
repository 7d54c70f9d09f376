from django.urls import path

from apps.reports.api.summary import SummaryView

urlpatterns = [
    path("reports/summary/", SummaryView.as_view()),
]
