"""Reports a training job's step times to the stepcast sidecar.

One file to copy beside a training script; needs Python 3.9 and grpcio, and
torch or lightning only where the job has them anyway.

Any loop:

    from stepcast_reporter import StepReporter

    with StepReporter("127.0.0.1:7443", job_id="resnet-17", job="job.yaml",
                      nodes=["fast-0", "fast-1"], token="...") as reporter:
        for batch in batches:
            train(batch)
            reporter.step()                  # at the end of each step

PyTorch, where one optimizer step is one step, however many backward passes
were accumulated for it:

    register(optimizer, reporter)

Lightning (`lightning` or `pytorch_lightning`):

    Trainer(callbacks=[StepcastCallback(reporter)])

What it keeps to
----------------
*Training comes first.* `step()` stores one number; a thread sends them every
`every_s` seconds. A sidecar that is away or refuses is logged once a minute
and nothing else: meanwhile steps wait in a bounded buffer whose oldest ones
give way and are counted as dropped. Only mistakes in the arguments raise, in
the constructor, before training starts.

*Every step once.* Steps are numbered and a report says the number of its
first one. One that was not answered is sent again unchanged, and the sidecar
leaves out what it has seen. A job that goes on from a checkpoint under the
same `job_id` therefore says so with `first_step`; its steps would be taken
for repeats otherwise (a warning tells). Sidecars that do not know
`first_step` may count a report twice whose answer was lost.

*One voice.* Only the process with RANK 0 reports (RANK not set counts as 0).
Node names are `nodes`, or else the environment's STEPCAST_NODES (separated by
commas), or NODE_NAME (in Kubernetes: `fieldRef: spec.nodeName`) for a job on
one node. `gather_nodes()` collects every rank's NODE_NAME.

*The first step is not timed.* There is no step before it to measure from,
and what it does (compiling, tuning, filling caches) is not what a step costs.

Why nothing is synchronised with the GPU
----------------------------------------
CUDA work is queued: a step's call returns before the GPU has done it, so the
time between two calls is not the time of that very step. The host can run
ahead only so far, though. The queue is bounded, and any read of a result
(`loss.item()`) waits for all of it, so over many steps the host is as fast as
the GPU: times between calls add up to the wall clock, and their mean is right
but for the little that is still queued at either end. Synchronising at every
step would make single times right too, and the training slower, since the
GPU then waits while the host prepares the next step.

Single times may mislead all the same: a loop that reads its loss every tenth
step shows nine short steps and a long one, and the sidecar shows medians. So
once CUDA is in use a report carries the number of steps and their sum
instead of single times (`sums` chooses either way).
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Union

import grpc

if TYPE_CHECKING:
    # Made when it is first asked for, see `__getattr__` at the end.
    StepcastCallback: Any

# Not StepcastCallback: `import *` would import Lightning.
__all__ = ["StepReporter", "Stats", "gather_nodes", "register"]

LOG = logging.getLogger("stepcast")

METHOD = "/stepcast.v1.Observations/ReportSteps"

# Steps of one report: 80 kB, far below the sidecar's limit for a message.
MOST_STEPS_A_REPORT = 10_000
# Between attempts while somebody waits in `flush` or `close`.
RETRY_S = 0.2
# Between log lines about failures.
COMPLAIN_EVERY_S = 60.0

Job = Union[Mapping[str, Any], str, "os.PathLike[str]"]


# --- Messages -------------------------------------------------------------
#
# Written by hand, so that no generated code has to match the protobuf
# version which the training job happens to have. Field numbers are those of
# proto/stepcast/v1/observations.proto and job.proto.

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # protobuf's wire types


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _count(field: int, value: int) -> bytes:
    """A uint32 or uint64; zero is what absent means, so it is left out."""
    return _varint(field << 3 | VARINT) + _varint(value) if value else b""


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | FIXED64) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | BYTES) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _doubles(field: int, values: Sequence[float]) -> bytes:
    """`repeated double`, packed as proto3 does."""
    return _bytes(field, struct.pack(f"<{len(values)}d", *values))


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _accepted_steps(response: bytes) -> int:
    """ReportStepsResponse.accepted_steps = 1, past fields of later versions."""
    accepted = at = 0
    while at < len(response):
        key, at = _read_varint(response, at)
        field, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _read_varint(response, at)
            if field == 1:
                accepted = value
        elif kind == BYTES:
            length, at = _read_varint(response, at)
            at += length
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"not a message: wire type {kind}")
    return accepted


@dataclass(frozen=True)
class _Report:
    """Steps in a row, as they are sent, and sent again until answered."""

    first_step: int
    seconds: tuple[float, ...]
    as_sum: bool
    again: bool = False

    def encode(self, head: bytes) -> bytes:
        """A ReportStepsRequest; `head` has the fields that never change."""
        if self.as_sum:
            # step_count = 5, step_seconds_sum = 6
            steps = _count(5, len(self.seconds)) + _double(6, math.fsum(self.seconds))
        else:
            steps = _doubles(4, self.seconds)  # step_seconds = 4
        return head + steps + _count(8, self.first_step)  # first_step = 8


def _head(job_id: str, job: str, nodes: Sequence[str], workers: int) -> bytes:
    """The fields that are the same in each report of a job.

    The job is in every one of them: a sidecar that restarted knows none.
    """
    return b"".join(
        (
            _text(1, job_id),  # job_id = 1
            _bytes(2, _text(8, job)),  # job = 2, of which Job.file = 8
            *(_text(3, name) for name in nodes),  # nodes = 3
            _count(7, workers),  # workers = 7
        )
    )


# --- Arguments ------------------------------------------------------------


def _job_file(job: Job) -> str:
    """The text of a job file: of a dict, a path, or the text itself.

    A job file may be JSON, which is what a dict becomes, so the sidecar reads
    all of them with one reader and names the key of a mistake.
    """
    if isinstance(job, Mapping):
        return json.dumps(job)
    if isinstance(job, str) and ("\n" in job or job.lstrip().startswith("{")):
        return job
    with open(job, encoding="utf-8") as file:
        return file.read()


def _node_names(nodes: Sequence[str] | str | None) -> list[str]:
    """The nodes as given, or as the environment has them."""
    if nodes is None:
        nodes = os.environ.get("STEPCAST_NODES") or os.environ.get("NODE_NAME") or ""
    if isinstance(nodes, str):
        nodes = nodes.split(",")
    names = [name.strip() for name in nodes if name.strip()]
    if not names:
        raise ValueError("no nodes: give `nodes`, or set STEPCAST_NODES or NODE_NAME")
    # Several ranks on one node name it several times; the sidecar wants it once.
    return list(dict.fromkeys(names))


def _rank() -> int:
    value = os.environ.get("RANK", "0")
    return int(value) if value.isdigit() else 0


def gather_nodes() -> list[str]:
    """NODE_NAME of every rank, in order of rank, each once.

    A collective of torch.distributed: every rank calls it, after
    `init_process_group`. Alone, it is the own NODE_NAME.
    """
    import torch.distributed as dist

    own = os.environ.get("NODE_NAME", "")
    if not (dist.is_available() and dist.is_initialized()):
        return _node_names([own])
    names: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(names, own)
    return _node_names(names)


@dataclass(frozen=True)
class _Sidecar:
    """Where the sidecar is and what it wants to see of the caller."""

    target: str
    tls: bool
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    token: str | None
    token_file: str | None

    def __post_init__(self) -> None:
        if not self.target:
            raise ValueError("no target: host:port, or unix:/path/of/the.sock")
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("cert_file and key_file come together")

    def connect(self) -> grpc.Channel:
        """A new channel. Files are read each time: certificates are renewed."""
        # A pool of its own: a new channel then tries at once, where a shared
        # one would go on waiting because the last attempt failed.
        options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1)]
        if self.target.startswith("unix:"):
            # grpcio would put the path where HTTP/2 wants a host.
            options.append(("grpc.default_authority", "localhost"))
        if not (self.tls or self.ca_file or self.cert_file):
            return grpc.insecure_channel(self.target, options)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca_file),
            private_key=_read(self.key_file),
            certificate_chain=_read(self.cert_file),
        )
        return grpc.secure_channel(self.target, credentials, options)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The token, read each time where it is in a file: tokens are renewed."""
        token = self.token
        if self.token_file:
            token = (_read(self.token_file) or b"").decode().strip()
        return (("authorization", f"Bearer {token}"),) if token else ()


def _read(path: str | None) -> bytes | None:
    if not path:
        return None
    with open(path, "rb") as file:
        return file.read()


def _cuda_in_use() -> bool:
    """Whether this process has used CUDA; imports nothing to find out."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda is not None and bool(cuda.is_initialized())


# --- The reporter ---------------------------------------------------------


@dataclass
class Stats:
    """What became of the steps."""

    recorded: int = 0
    accepted: int = 0  # which the sidecar says it counted
    repeated: int = 0  # which it says it had before, as when its answer was lost
    dropped: int = 0  # gave way in the full buffer, or had no time above zero
    failures: int = 0  # attempts to send that failed


class StepReporter:
    """Sends step times of one job in the background.

    `job` is a dict in the form of the job file, the path of one (YAML or
    JSON), or its text; it may refer to no other files. `workers` is for jobs
    that leave accelerators of their nodes unused. `first_step` is the number
    of the step that `step` will end next, above 1 for a job that goes on.

    A `token` over plain TCP can be read on the way: give TLS files, `tls=True`
    (with the system's authorities), or a `unix:` target unless the sidecar is
    on the same machine.
    """

    def __init__(
        self,
        target: str,
        job_id: str,
        job: Job,
        nodes: Sequence[str] | str | None = None,
        *,
        workers: int = 0,
        every_s: float = 10.0,
        first_step: int = 1,
        token: str | None = None,
        token_file: str | None = None,
        tls: bool = False,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        sums: bool | None = None,
        buffer_steps: int = 50_000,
        call_s: float = 10.0,
        exit_s: float = 3.0,
    ) -> None:
        self.stats = Stats()
        self._enabled = _rank() == 0
        self._every_s, self._call_s, self._exit_s = every_s, call_s, exit_s
        self._sums, self._most = sums, buffer_steps
        self._next_step = first_step
        self._reset()
        if not self._enabled:
            return  # What is missing on this rank is nobody's loss.
        if not job_id:
            raise ValueError("no job_id: the name that each report of the job has")
        if every_s <= 0 or first_step < 1 or workers < 0 or buffer_steps < 1:
            raise ValueError("every_s is above 0, first_step and buffer_steps at least 1, workers at least 0")
        self._sidecar = _Sidecar(target, tls, ca_file, cert_file, key_file, token, token_file)
        self._head = _head(job_id, _job_file(job), _node_names(nodes), workers)

    def _reset(self) -> None:
        """What does not go along to another process."""
        # Guards everything below and is never held while sending.
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, float]] = deque()
        self._unanswered: _Report | None = None
        self._mark: float | None = None
        self._paused_at: float | None = None
        self._hurry_until = 0.0
        self._closing = False
        # Started by the first recorded step: until then there is no thread
        # and no channel, and the process may fork as it likes.
        self._thread: threading.Thread | None = None
        self._channel: grpc.Channel | None = None
        self._failed = False
        self._quiet_until = 0.0
        self._unsaid = 0

    # What the training loop calls.

    def step(self) -> None:
        """A step has ended. The first call only starts the clock."""
        if not self._enabled:
            return
        now = time.perf_counter()
        with self._changed:
            mark, self._mark = self._mark, now
            if self._paused_at is not None:
                # Time since the pause began is no part of the step.
                now, self._paused_at = self._paused_at, None
            if mark is None:
                self._next_step += 1
            else:
                self._add(now - mark)

    def record(self, seconds: float) -> None:
        """A step has ended that took so long, for loops with a clock of their own."""
        if not self._enabled:
            return
        with self._changed:
            self._add(seconds)

    def pause(self) -> None:
        """Stops the clock, for what is no part of a step: validation, say."""
        with self._changed:
            if self._mark is not None and self._paused_at is None:
                self._paused_at = time.perf_counter()

    def resume(self) -> None:
        """Lets the clock go on after `pause`."""
        with self._changed:
            if self._mark is not None and self._paused_at is not None:
                self._mark += time.perf_counter() - self._paused_at
            self._paused_at = None

    def stop(self) -> None:
        """Stops the clock for good: the next `step` starts it anew."""
        with self._changed:
            self._mark = self._paused_at = None

    def go_on_from(self, step: int) -> None:
        """The job has done so many steps. Numbers never go back."""
        with self._changed:
            self._next_step = max(self._next_step, step + 1)

    def flush(self, timeout: float = 3.0) -> bool:
        """Sends now: whether all of it was answered within the time."""
        if not self._enabled:
            return True
        with self._changed:
            self._hurry_until = max(self._hurry_until, time.monotonic() + timeout)
            self._changed.notify_all()
            done = self._changed.wait_for(self._nothing_left, timeout)
            self._hurry_until = 0.0
            return done

    def close(self) -> None:
        """Sends what is left, for `exit_s` at most. Later steps are ignored."""
        if not self._enabled:
            return
        self._enabled = False
        atexit.unregister(self.close)
        with self._changed:
            self._closing = True
            self._hurry_until = time.monotonic() + self._exit_s
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(self._exit_s + RETRY_S)
            self._disconnect()  # Ends a call that hangs.
        left = self._left()
        if left or self.stats.dropped:
            LOG.warning("stepcast: not reported: %d steps, and %d that were dropped before", left, self.stats.dropped)

    def __enter__(self) -> StepReporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The buffer; with `_changed` held.

    def _add(self, seconds: float) -> None:
        number = self._next_step
        self._next_step += 1
        self.stats.recorded += 1
        if not (math.isfinite(seconds) and seconds > 0):
            # The sidecar would refuse the whole report, for ever.
            self.stats.dropped += 1
            return
        if len(self._waiting) >= self._most:
            self._waiting.popleft()
            self.stats.dropped += 1
        self._waiting.append((number, seconds))
        if self._thread is None:
            self._start()

    def _nothing_left(self) -> bool:
        return self._unanswered is None and not self._waiting

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="stepcast-reporter", daemon=True)
        _STARTED.add(self)
        try:
            self._thread.start()
            atexit.register(self.close)
        except RuntimeError as error:  # Out of threads, or Python is ending.
            self._thread = None
            self._complain(f"cannot start to report: {error}")

    def _take(self) -> _Report | None:
        """The report to send: the unanswered one as it was, or the next."""
        if self._unanswered is None and self._waiting:
            first = self._waiting[0][0]
            seconds: list[float] = []
            # Numbers must follow each other: after a gap comes another report.
            while self._waiting and self._waiting[0][0] == first + len(seconds) and len(seconds) < MOST_STEPS_A_REPORT:
                seconds.append(self._waiting.popleft()[1])
            as_sum = _cuda_in_use() if self._sums is None else self._sums
            self._unanswered = _Report(first, tuple(seconds), as_sum)
        return self._unanswered

    def _left(self) -> int:
        unanswered = self._unanswered
        return len(self._waiting) + (len(unanswered.seconds) if unanswered else 0)

    # The thread.

    def _run(self) -> None:
        while self._wait():
            self._failed = False
            while self._send_next():
                pass

    def _wait(self) -> bool:
        """Until it is time to send; false when there is nothing more to do."""
        with self._changed:
            if not self._hurried():
                self._changed.wait_for(lambda: self._closing or self._hurried(), self._every_s)
            elif self._failed:
                self._changed.wait(RETRY_S)
            return not self._closing or self._hurried()

    def _hurried(self) -> bool:
        """Whether somebody waits for steps that are still here."""
        return not self._nothing_left() and time.monotonic() < self._hurry_until

    def _send_next(self) -> bool:
        """Sends a report; false when there was none, or it is in vain for now."""
        with self._changed:
            late = self._closing and not self._hurried()
            report = None if late else self._take()
            rush = self._hurry_until - time.monotonic()
        if report is None:
            return False
        try:
            accepted = self._call(report, rush if rush > 0 else self._call_s)
        # Whatever it is, training goes on and so does this thread.
        except Exception as error:
            self._on_failure(report, error)
            return False
        self._on_answer(report, accepted)
        return True

    def _call(self, report: _Report, timeout: float) -> int:
        """One stream for each report: only the end of a stream is answered."""
        channel = self._channel  # `close` may take it away meanwhile.
        if channel is None:
            channel = self._channel = self._sidecar.connect()
        rpc = channel.stream_unary(METHOD, request_serializer=bytes, response_deserializer=bytes)
        message = report.encode(self._head)
        answer = rpc(iter((message,)), timeout=timeout, metadata=self._sidecar.metadata())
        return _accepted_steps(answer)

    def _on_answer(self, report: _Report, accepted: int) -> None:
        sent = len(report.seconds)
        with self._changed:
            self._unanswered = None
            self.stats.accepted += accepted
            self.stats.repeated += max(0, sent - accepted)
            self._changed.notify_all()
        if report.again:
            LOG.info("stepcast: reporting again, after %d failures in all", self.stats.failures)
        elif accepted < sent:
            self._complain(
                f"the sidecar had already counted {sent - accepted} of {sent} steps from step {report.first_step} on; "
                "a job that goes on under the same job_id needs `first_step`"
            )

    def _on_failure(self, report: _Report, error: Exception) -> None:
        self._failed = True
        self._disconnect()
        with self._changed:
            self.stats.failures += 1
            # It may have arrived although no answer did.
            self._unanswered = replace(report, again=True)
            left = self._left()
            given_up = self._closing and not self._hurried()
        if given_up:
            return  # `close` ended the call, and says what was left.
        if isinstance(error, grpc.RpcError) and hasattr(error, "code"):
            why = f"{error.code().name}: {error.details()}"
        else:
            why = f"{type(error).__name__}: {error}"
        self._complain(f"cannot report to {self._sidecar.target}, {left} steps wait: {why}")

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _complain(self, what: str) -> None:
        """Logs, but not more than once a minute."""
        now = time.monotonic()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} times since the last such line)" if self._unsaid else ""
        self._quiet_until, self._unsaid = now + COMPLAIN_EVERY_S, 0
        LOG.warning("stepcast: %s%s", what, more)

    # Other processes.

    def __getstate__(self) -> Mapping[str, Any]:
        """For strategies that spawn processes: the settings, not the thread."""
        mine = ("_changed", "_thread", "_channel", "_inherited", "_waiting", "_unanswered")
        return {key: value for key, value in self.__dict__.items() if key not in mine}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()
        self.stats = Stats()
        self._enabled = self._enabled and _rank() == 0

    def _after_fork(self) -> None:
        """The parent goes on reporting; a copy of it would report twice."""
        # Kept, since closing the copy of a channel in use may hang.
        self._inherited = self._channel
        self._reset()
        self._enabled = False


# Reporters that have a thread. Workers of a DataLoader are forks of a process
# in which that thread may hold the lock, and has no copy to let go of it.
_STARTED: weakref.WeakSet[StepReporter] = weakref.WeakSet()


def _after_fork() -> None:
    for reporter in list(_STARTED):
        reporter._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- Frameworks -----------------------------------------------------------


def register(optimizer: Any, reporter: StepReporter) -> Any:
    """Ends a step after each `optimizer.step()`; `.remove()` the answer to stop.

    With several optimizers register one. A step that a GradScaler skips is no
    step of the optimizer: its time is in the next one's.
    Where `optimizer.step()` is itself inside of torch.compile the graph breaks
    there; call `reporter.step()` outside of it instead.
    """
    hook = getattr(optimizer, "register_step_post_hook", None)
    if hook is None:
        raise TypeError(
            f"{type(optimizer).__name__} has no register_step_post_hook (PyTorch has it from 2.0 on): "
            "call reporter.step() after each optimizer step"
        )
    return hook(lambda *_: reporter.step())


def _lightning() -> Any:
    """Lightning under the name by which the job has imported it."""
    import importlib

    names = ("lightning.pytorch", "pytorch_lightning")
    # Stable: of those that are not imported yet, the first that is there.
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("StepcastCallback needs `lightning` or `pytorch_lightning`")


def _callback_class() -> Any:
    class StepcastCallback(_lightning().Callback):  # type: ignore[misc]
        """Reports the steps of a Trainer.

        A step is a batch after which `trainer.global_step` has gone on: with
        `accumulate_grad_batches` that is the last of each group, and it is
        right for manual optimization with several optimizers too.
        (`on_before_zero_grad` comes in the middle of a step, and not at all
        in manual optimization.) Validation and what happens between epochs
        do not count.
        """

        def __init__(self, reporter: StepReporter) -> None:
            super().__init__()
            self.reporter = reporter
            self._global_step = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            # Not 0 after a checkpoint.
            self._global_step = trainer.global_step
            self.reporter.go_on_from(trainer.global_step)

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            gone_on = trainer.global_step != self._global_step
            self._global_step = trainer.global_step
            # Lightning's own launchers tell ranks apart before RANK is set.
            if gone_on and trainer.is_global_zero:
                self.reporter.step()

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            self.reporter.pause()

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            self.reporter.resume()

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            self.reporter.resume()

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            self.reporter.pause()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.reporter.stop()

    # Found under the module's own name, so that it can be pickled.
    StepcastCallback.__qualname__ = "StepcastCallback"
    return StepcastCallback


def __getattr__(name: str) -> Any:
    """Makes StepcastCallback when it is asked for: only then is Lightning imported."""
    if name != "StepcastCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _callback_class()
    return made
