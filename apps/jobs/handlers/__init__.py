"""The handlers that run jobs in-house. The import point for your own handlers:

from apps.jobs.handlers import Fail, Retry, handler

@handler("mail", lane="slow", max_attempts=5)
def mail(context): ...
"""

from apps.jobs.handlers.contract import Cancelled, Context, Done, Fail, Later, NextStage, Retry
from apps.jobs.handlers.registry import around, handler
from apps.jobs.rules.submission import Submission

__all__ = [
    "Cancelled",
    "Context",
    "Done",
    "Fail",
    "Later",
    "NextStage",
    "Retry",
    "Submission",
    "around",
    "handler",
]
