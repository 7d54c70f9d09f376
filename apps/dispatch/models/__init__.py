from apps.dispatch.models.dispatch import Dispatch
from apps.dispatch.models.executor import Executor, Membership, OperatorScope
from apps.dispatch.models.stock import Stock
from apps.dispatch.models.task import TASK_MODELS, OnceTask, RotateTask, Source, Task
from apps.dispatch.models.template import Template

__all__ = [
    "TASK_MODELS",
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
