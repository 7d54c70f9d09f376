from typing import TypeAlias

from apps.dispatch.models.archived import ArchivedDispatch, ArchivedTask
from apps.dispatch.models.dispatch import Dispatch
from apps.dispatch.models.executor import Executor, Membership, OperatorScope
from apps.dispatch.models.stock import Stock
from apps.dispatch.models.task import TASK_MODELS, OnceTask, RotateTask, Source, Task
from apps.dispatch.models.template import Template

# A dispatch, wherever it is.
AnyDispatch: TypeAlias = Dispatch | ArchivedDispatch

__all__ = [
    "TASK_MODELS",
    "AnyDispatch",
    "ArchivedDispatch",
    "ArchivedTask",
    "Dispatch",
    "Executor",
    "Membership",
    "OnceTask",
    "OperatorScope",
    "RotateTask",
    "Source",
    "Stock",
    "Task",
    "Template",
]
