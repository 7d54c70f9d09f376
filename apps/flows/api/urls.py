from django.urls import path

from apps.flows.api.flows import CheckFlowView, FlowsView, FlowView
from apps.flows.api.runs import (
    CancelRunView,
    FinishStepView,
    FlowRunsView,
    FlowRunView,
    PauseRunView,
    ResumeRunView,
    RetryRunView,
    SkipStepView,
    StepResultsView,
)

_RUN = "flow-runs/<str:number>/"
_STEP = f"{_RUN}steps/<str:step>/"

urlpatterns = [
    path("flows/", FlowsView.as_view()),
    # A flow cannot be called so.
    path("flows/check/", CheckFlowView.as_view()),
    path("flows/<str:name>/", FlowView.as_view()),
    path("flow-runs/", FlowRunsView.as_view()),
    path(_RUN, FlowRunView.as_view()),
    path(f"{_RUN}cancel/", CancelRunView.as_view()),
    path(f"{_RUN}pause/", PauseRunView.as_view()),
    path(f"{_RUN}resume/", ResumeRunView.as_view()),
    path(f"{_RUN}retry/", RetryRunView.as_view()),
    path(f"{_STEP}results/", StepResultsView.as_view()),
    path(f"{_STEP}skip/", SkipStepView.as_view()),
    path(f"{_STEP}finish/", FinishStepView.as_view()),
]
