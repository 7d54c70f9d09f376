from apps.dispatch.models.dispatch import Dispatch
from apps.dispatch.models.executor import Executor, Membership, OperatorScope
from apps.dispatch.models.stock import Stock
from apps.dispatch.models.task import OnceTask, Source, Task
from apps.dispatch.models.template import Template

__all__ = [
    "Dispatch",
    "Executor",
    "Membership",
    "OnceTask",
    "OperatorScope",
    "Source",
    "Stock",
    "Task",
    "Template",
]
