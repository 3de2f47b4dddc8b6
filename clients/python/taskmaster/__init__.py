"""The Python client of TaskMaster, a durable, priority-ordered task queue."""

from .client import AsyncClient, AsyncLeasedTask, Client, LeasedTask, TaskEnd, new_task, pid_bytes, retry_policy
from .errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidRequestError,
    LeaseExpiredError,
    LeaseLostError,
    OverloadedError,
    TaskCancelledError,
    TaskExistsError,
    TaskMasterError,
    TaskNotCompletedError,
    TaskNotFoundError,
    TimeLimitError,
    UnavailableError,
    UnrecoverableError,
)
from .worker import AsyncWorker, Done, Worker

__all__ = [
    "AsyncClient",
    "AsyncLeasedTask",
    "AsyncWorker",
    "CancelledError",
    "Client",
    "DeadlineExceededError",
    "Done",
    "InvalidRequestError",
    "LeaseExpiredError",
    "LeaseLostError",
    "LeasedTask",
    "OverloadedError",
    "TaskCancelledError",
    "TaskEnd",
    "TaskExistsError",
    "TaskMasterError",
    "TaskNotCompletedError",
    "TaskNotFoundError",
    "TimeLimitError",
    "UnavailableError",
    "UnrecoverableError",
    "Worker",
    "new_task",
    "pid_bytes",
    "retry_policy",
]
