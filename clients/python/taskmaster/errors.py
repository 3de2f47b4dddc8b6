"""Errors of all calls. docs/reference/errors.md lists the reasons, with what to do about each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from .v1 import tasks_pb2

DOMAIN = "taskmaster"
_DETAILS = "grpc-status-details-bin"
_TEMPORARY = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
# Reasons, and statuses without a reason, that leave open whether the request was applied.
_OPEN_REASONS = {"OUTCOME_UNKNOWN", "STORE_FAILED", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL"}
_OPEN_CODES = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    # A node says with a reason that a request is too long. Without one, the answer was too long for the client.
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class TaskMasterError(Exception):
    """A call that was refused or failed."""

    def __init__(
        self,
        message: str,
        reason: str,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        *,
        metadata: Mapping[str, str] | None = None,
        retry_delay: float | None = None,
        retryable: bool = False,
        maybe_applied: bool = False,
        items: Iterable[tasks_pb2.ItemRefusal] = (),
    ) -> None:
        super().__init__(message)
        #: Stable name for programs, such as `LEASE_LOST`, or the name of a gRPC status.
        self.reason = reason
        #: The gRPC status.
        self.code = code
        #: Details by name.
        self.metadata = dict(metadata or {})
        #: Delay before a retry that the node asks for, in seconds. None: it asks for none.
        self.retry_delay = retry_delay
        #: Whether the same request may succeed later.
        self.retryable = retryable
        #: Whether the request may have been applied, or may still be. False: it has changed nothing.
        self.maybe_applied = maybe_applied
        #: The items because of which an update was refused.
        self.items = list(items)


class InvalidRequestError(TaskMasterError):
    """The request is wrong and must not be repeated."""


class LeaseLostError(TaskMasterError):
    """The lease token is not current any more: stop the work, because another worker may have the task."""


class LeaseExpiredError(TaskMasterError):
    """The lease ended before it was renewed or released. The task can still be completed, until another worker leases it."""


class TaskNotFoundError(TaskMasterError):
    """The task is not in the queue."""


class TaskExistsError(TaskMasterError):
    """The queue has a task with this PID, and the enqueue had the mode `fail`."""


class OverloadedError(TaskMasterError):
    """The node has no room, or a quota is used up. Wait for `retry_delay`."""


class UnavailableError(TaskMasterError):
    """No node can be reached, the connection broke, or the node is starting or stopping."""


class DeadlineExceededError(TaskMasterError):
    """There was no answer in time."""


class CancelledError(TaskMasterError):
    """The call was cancelled, because the worker stops or the client was closed."""


class TaskCancelledError(TaskMasterError):
    """The task of a worker was cancelled. `metadata["cancel_reason"]` says why. Stop the work."""


class TimeLimitError(TaskMasterError):
    """The attempt of a worker has reached its time limit. It has failed, whatever the worker does."""


class TaskNotCompletedError(TaskMasterError):
    """A task that was waited for has ended in another way: `metadata["outcome"]`."""


class UnrecoverableError(Exception):
    """Raise it in a handler when a retry cannot help: the task goes to its dead-letter queue at once."""


_BY_REASON = {
    "LEASE_LOST": LeaseLostError,
    "LEASE_EXPIRED": LeaseExpiredError,
    "TASK_NOT_FOUND": TaskNotFoundError,
    "TASK_EXISTS": TaskExistsError,
    "TASK_CANCELLED": TaskCancelledError,
    "TIME_LIMIT_EXCEEDED": TimeLimitError,
    "TASK_NOT_COMPLETED": TaskNotCompletedError,
}
_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CancelledError,
}


def make_error(message: str, reason: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN, **details: Any) -> TaskMasterError:
    """An error of the class for its reason, or for its status if the reason has no class."""
    return (_BY_REASON.get(reason) or _BY_CODE.get(code) or TaskMasterError)(message, reason, code, **details)


def error_of(failure: grpc.RpcError) -> TaskMasterError:
    """The error of a failed gRPC call, with the details that the node has sent."""
    code, message = failure.code(), failure.details() or ""
    packed = dict(failure.trailing_metadata() or ()).get(_DETAILS)
    if packed is not None:
        info, retry, refused = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), tasks_pb2.UpdateRefused()
        for detail in status_pb2.Status.FromString(packed).details:
            for known in (info, retry, refused):
                detail.Unpack(known)
        if info.domain == DOMAIN:
            nothing_changed = info.metadata.get("nothing_changed") == "true"
            return make_error(
                message,
                info.reason,
                code,
                metadata=info.metadata,
                retry_delay=retry.retry_delay.ToTimedelta().total_seconds() or None,
                retryable=info.reason == "NOT_HOLDER" or code in _TEMPORARY,
                maybe_applied=info.reason in _OPEN_REASONS and not nothing_changed,
                items=refused.items,
            )
    if code is grpc.StatusCode.CANCELLED:
        # Cancellations by this program do not come here. A server that ends without waiting for its calls cancels them.
        code, message = grpc.StatusCode.UNAVAILABLE, f"the server cancelled the call: {message}"
    retryable = code is grpc.StatusCode.UNAVAILABLE
    return make_error(message, code.name, code, retryable=retryable, maybe_applied=code in _OPEN_CODES)


def cancelled(message: str, maybe_applied: bool = False) -> TaskMasterError:
    return make_error(message, "CANCELLED", grpc.StatusCode.CANCELLED, maybe_applied=maybe_applied)
