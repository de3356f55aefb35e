"""The reporter for training jobs (deploy/stepcast_reporter.py) against the built sidecar.

    python reporter.py PROGRAM [torch | lightning.pytorch | pytorch_lightning]

Real training loops where torch and Lightning can be imported, plain loops
everywhere. Steps must be counted exactly once, also when the sidecar goes
away in the middle, and the loop must not notice.
"""

import importlib
import json
import logging
import multiprocessing
import os
import pathlib
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent import futures

PROGRAM, FRAMEWORK = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
FRAMEWORKS = ["torch", "lightning.pytorch", "pytorch_lightning"]
if FRAMEWORK:
    # Before grpc_tools: that brings a protobuf which Debian's torch would take
    # for its own, and crash. (The reporter needs neither.)
    try:
        importlib.import_module(FRAMEWORK)
    except ImportError as error:
        print(f"NOT CHECKED, training with {FRAMEWORK}: {error}; the plain interface was")
        sys.exit()

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "deploy"), str(pathlib.Path(__file__).parent)]
import stepcast_reporter  # noqa: E402
from end_to_end import Sidecar, authority, call, certificate, free_port, messages  # noqa: E402
from stepcast_reporter import StepReporter, register  # noqa: E402

# Whatever trains here is not this job; the sidecar only has to know it.
JOB = {"workload": "resnet50", "batch_size": 32, "strategy": {"all_reduce": {}}}
NODES = ["fast-0", "fast-1"]
# Nothing is sent by itself while a test looks at what waits.
NEVER = 3600


def wait_for(condition):
    until = time.time() + 10
    while not condition():
        assert time.time() < until, "waited in vain"
        time.sleep(0.02)


class Place:
    """A folder, the messages, and a sidecar that can be restarted at its socket."""

    def __init__(self, folder):
        self.folder, self.of = folder, messages(folder)
        self.socket = f"unix:{folder / 's.sock'}"
        self.sidecar = None

    def start(self):
        self.sidecar = Sidecar(self.folder, "--uds", self.folder / "s.sock")
        wait_for((self.folder / "s.sock").exists)

    def kill(self):
        """At once, as when a node loses power; the socket's file stays behind."""
        self.sidecar.process.send_signal(signal.SIGKILL)
        self.sidecar.process.wait()
        (self.folder / "s.sock").unlink()

    def reporter(self, job_id, **options):
        options = {"target": self.socket, "job": JOB, "nodes": NODES, "every_s": 0.2, **options}
        return StepReporter(job_id=job_id, **options)

    def jobs(self):
        """Steps and median of each job, as ListJobs has them."""
        with grpc.insecure_channel(f"127.0.0.1:{self.sidecar.port}") as channel:
            answer = call(channel, "Observations/ListJobs", self.of("ListJobsRequest")(), self.of("ListJobsResponse"))
        return {job.job_id: (job.steps, job.observed_step_seconds) for job in answer.jobs}

    def steps(self, job_id):
        """Steps of a job; ListJobs and the metrics must agree."""
        listed = self.jobs().get(job_id, (0, 0))[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{self.sidecar.metrics}/metrics", timeout=10) as page:
            text = page.read().decode()
        found = re.search(rf'^stepcast_observed_steps_total{{job="{job_id}"}} (\d+)$', text, re.M)
        assert listed == (int(found[1]) if found else 0), (job_id, listed, found)
        return listed


class Said(logging.Handler):
    """What was logged."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __enter__(self):
        logging.getLogger("stepcast").addHandler(self)
        return self

    def __exit__(self, *_):
        logging.getLogger("stepcast").removeHandler(self)


def the_messages_are_those_of_the_proto(place):
    head = stepcast_reporter._head("a job", stepcast_reporter._job_file(JOB), NODES, 300)
    request = place.of("ReportStepsRequest")
    singles = request.FromString(stepcast_reporter._Report(7, (0.25, 0.5), as_sum=False).encode(head))
    assert (singles.job_id, list(singles.nodes), singles.workers) == ("a job", NODES, 300)
    assert list(singles.step_seconds) == [0.25, 0.5] and singles.step_count == 0
    assert '"workload": "resnet50"' in singles.job.file
    total = request.FromString(stepcast_reporter._Report(1 << 40, (0.25, 0.5), as_sum=True).encode(head))
    assert (total.step_count, total.step_seconds_sum, list(total.step_seconds)) == (2, 0.75, [])
    if knows_first_step(place):
        assert (singles.first_step, total.first_step) == (7, 1 << 40)
    answer = place.of("ReportStepsResponse")(accepted_steps=1 << 35).SerializeToString()
    later = b"\x12\x03abc" + b"\x19" + bytes(8) + b"\x25" + bytes(4)  # fields that nobody knows yet
    assert stepcast_reporter._accepted_steps(later + answer) == 1 << 35
    assert stepcast_reporter._accepted_steps(b"") == 0


def knows_first_step(place):
    return "first_step" in place.of("ReportStepsRequest").DESCRIPTOR.fields_by_name


def a_plain_loop(place):
    with place.reporter("plain") as reporter:
        for _ in range(50):
            time.sleep(0.002)
            reporter.step()
    assert place.steps("plain") == 49, "the first call starts the clock"
    assert place.jobs()["plain"][1] >= 0.002
    with place.reporter("own-clock", sums=True) as reporter:
        for _ in range(20):
            reporter.record(0.25)
    assert place.jobs()["own-clock"] == (20, 0.25)
    yaml = place.folder / "job.yaml"
    shutil.copy(ROOT / "examples/job.yaml", yaml)
    for name, job in [("path", yaml), ("text-path", str(yaml)), ("text", yaml.read_text())]:
        with place.reporter(name, job=job) as reporter:
            reporter.record(0.25)
        assert place.steps(name) == 1, name


def pauses_are_no_part_of_a_step(place):
    reporter = place.reporter("pauses", every_s=NEVER)
    reporter.step()
    for _ in range(2):
        reporter.pause()
        reporter.pause()
        time.sleep(1)
        reporter.resume()
    reporter.step()
    reporter.pause()
    time.sleep(1)
    reporter.step()
    assert [n for n, _ in reporter._waiting] == [2, 3]
    assert all(seconds < 0.9 for _, seconds in reporter._waiting), reporter._waiting
    reporter.stop()
    reporter.go_on_from(9)
    reporter.go_on_from(5)
    reporter.step()
    reporter.step()
    assert [n for n, _ in reporter._waiting] == [2, 3, 11], "the step that starts the clock has a number too"
    reporter.close()
    assert place.steps("pauses") == 3, "a gap makes two reports"


def restarted_in_the_middle(place, job_id, steps):
    """Kills the sidecar in the middle of a loop; `steps` yields after each step.

    Steps that each of the two sidecars counted.
    """
    before, held_up = None, []
    with place.reporter(job_id) as reporter, Said() as said:
        reporter.step = timed(reporter.step, held_up)
        for i, _ in enumerate(steps(reporter)):
            if i == 20:
                assert reporter.flush(10), said.lines
                before = place.steps(job_id)
                place.kill()
            if i == 40:
                # Long enough for attempts that fail.
                wait_for(lambda: reporter.stats.failures)
                place.start()
    assert reporter.stats.failures and not reporter.stats.dropped, reporter.stats
    assert any("steps wait: UNAVAILABLE" in line for line in said.lines), said.lines
    assert len(held_up) == 61 and max(held_up) < 1.0, f"the loop was held up for {max(held_up)} s"
    after = place.steps(job_id)
    assert before + after == reporter.stats.accepted == reporter.stats.recorded
    return before, after


def timed(function, times):
    """The function, which also notes how long each call took."""

    def call():
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)

    return call


def a_plain_loop_over_a_restart(place):
    def steps(reporter):
        for _ in range(61):
            time.sleep(0.002)
            reporter.step()
            yield

    assert restarted_in_the_middle(place, "restart", steps) == (20, 40)


def answers_that_are_lost(place):
    """Each report arrives, and every second answer does not."""
    if not knows_first_step(place):
        print("  not checked: the protocol has no first_step yet, so repeats are counted")
        return
    real = grpc.insecure_channel(place.socket, [("grpc.default_authority", "localhost")])
    forward = real.stream_unary(stepcast_reporter.METHOD, request_serializer=bytes, response_deserializer=bytes)
    calls = []

    def relay(requests, context):
        answer = forward(iter(list(requests)), timeout=10)
        calls.append(answer)
        if len(calls) % 2:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
        return answer

    handler = grpc.stream_unary_rpc_method_handler(relay, request_deserializer=bytes, response_serializer=bytes)
    service, method = stepcast_reporter.METHOD.strip("/").split("/")
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Said() as said:
        for sums in [False, True]:
            job_id = f"lost-{sums}"
            with place.reporter(job_id, target=f"127.0.0.1:{port}", sums=sums) as reporter:
                for i in range(30):
                    reporter.record(0.25)
                    if i % 10 == 9:
                        assert reporter.flush(10)
            assert place.jobs()[job_id] == (30, 0.25)
            assert place.steps(job_id) == 30
            assert reporter.stats.failures == 3 and reporter.stats.repeated == 30, reporter.stats
    assert not any("already counted" in line for line in said.lines), "a repeat of its own is no news"
    # A job that starts anew under the same name is told; one that goes on is counted.
    with Said() as said, place.reporter("lost-True") as reporter:
        reporter.record(0.25)
    assert any("already counted 1 of 1" in line for line in said.lines) and place.steps("lost-True") == 30
    with place.reporter("lost-True", first_step=31) as reporter:
        reporter.record(0.25)
    assert place.steps("lost-True") == 31
    server.stop(0)
    real.close()


def a_full_buffer(place):
    place.kill()
    with Said() as said:
        reporter = place.reporter("full", every_s=NEVER, buffer_steps=10, first_step=1001)
        for _ in range(25):
            reporter.record(0.25)
        reporter.record(float("nan"))
        reporter.record(0.0)
        assert reporter.stats.dropped == 17 and reporter._waiting[0][0] == 1016
        assert not reporter.flush(1) and reporter.stats.failures > 1
        assert len(said.lines) == 1, "once a minute"
        place.start()
        assert reporter.flush(10)
        reporter.close()
    assert place.steps("full") == 10


def refused(place):
    """What the sidecar refuses is said, with its words, and nothing breaks."""
    for name, options, words in [
        ("no-token", {"target": f"127.0.0.1:{place.sidecar.port}"}, "PERMISSION_DENIED"),
        ("no-node", {"nodes": ["nowhere"]}, "nowhere"),
        ("no-network", {"job": {**JOB, "workload": "resnet5O"}}, "resnet5O"),
        ("no-file", {"ca_file": "/not/there"}, "/not/there"),
    ]:
        with Said() as said:
            reporter = place.reporter(name, every_s=0.05, exit_s=0.1, **options)
            reporter.record(0.25)
            wait_for(lambda: reporter.stats.failures)
            reporter.close()
        assert any(words in line for line in said.lines), (name, said.lines)
        assert "not reported: 1 steps" in said.lines[-1] and place.steps(name) == 0
    for wrong in [{"nodes": []}, {"job_id": ""}, {"first_step": 0}, {"cert_file": "a"}, {"target": ""}]:
        try:
            StepReporter(**{"target": place.socket, "job_id": "x", "job": JOB, "nodes": NODES, **wrong})
        except ValueError:
            continue
        raise AssertionError(f"{wrong} was taken")


def ends_in_time(place):
    """A sidecar that takes the call and never answers does not keep the job from ending."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        reporter = place.reporter("deaf", target=f"127.0.0.1:{deaf.getsockname()[1]}", exit_s=1.0)
        reporter.record(0.25)
        time.sleep(0.5)  # A call is under way, with a longer deadline.
        begin = time.perf_counter()
        reporter.close()
        reporter.close()
        reporter.step()
        assert time.perf_counter() - begin < 3


def without_close(place):
    """A script that ends by itself, or by an error, sends what it has left."""
    for job_id, end in [("ends", ""), ("fails", "raise SystemExit(3)")]:
        script = (
            f"from stepcast_reporter import StepReporter\n"
            f"r = StepReporter({place.socket!r}, {job_id!r}, {JOB!r}, every_s={NEVER})\n"
            f"for _ in range(5): r.record(0.25)\n{end}"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "STEPCAST_NODES": "fast-0, fast-1,fast-0"}
        done = subprocess.run([sys.executable, "-c", script], env=env, timeout=60)
        assert done.returncode == (3 if end else 0) and place.steps(job_id) == 5


def other_processes(place):
    """Forks and other ranks keep quiet; a reporter can go to another process."""
    with place.reporter("forks") as reporter:
        reporter.record(0.25)
        assert reporter.flush(10)
        fork = multiprocessing.get_context("fork")
        for _ in range(3):
            child = fork.Process(target=lambda: (reporter.step(), reporter.record(0.25), reporter.close()))
            child.start()
            child.join(20)
            assert child.exitcode == 0, child.exitcode
        reporter.record(0.25)
        assert reporter.flush(10)
        copy = pickle.loads(pickle.dumps(reporter))
        copy.go_on_from(10)
        copy.record(0.25)
        copy.close()
    assert place.steps("forks") == 3, "one process reports at a time"
    os.environ["RANK"] = "1"
    try:
        with StepReporter("", "", "no such file") as reporter:
            reporter.step()
            reporter.step()
            assert reporter._thread is None and reporter.flush()
    finally:
        del os.environ["RANK"]


def tokens_and_tls(place):
    if not shutil.which("openssl"):
        print("  not checked: no openssl to make certificates")
        return
    folder = place.folder
    authority(folder, "ca")
    certificate(folder, "server", "ca", "stepcast")
    certificate(folder, "client", "ca", "trainer")
    token = folder / "token"
    token.write_text("secret-one\n")
    ca, cert, key = (str(folder / name) for name in ["ca.crt", "client.crt", "client.key"])
    tls = ["--tls-cert", folder / "server.crt", "--tls-key", folder / "server.key"]
    options = [
        (["--token-file", token], "127.0.0.1", {"token": "secret-one"}),
        (["--token-file", token], "127.0.0.1", {"token_file": str(token)}),
        ([*tls, "--token-file", token], "localhost", {"token": "secret-one", "ca_file": ca}),
        ([*tls, "--tls-client-ca", ca, "--allow-name", "trainer"], "localhost",
         {"ca_file": ca, "cert_file": cert, "key_file": key}),
    ]
    for server, host, client in options:
        with Sidecar(folder, *server) as sidecar:
            with place.reporter("secret", target=f"{host}:{sidecar.port}", **client) as reporter:
                reporter.record(0.25)
            assert reporter.stats.accepted == 1, (server, reporter.stats)


def torch_training(place):
    """A network on the CPU: two backward passes a step, data loaded by forks."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(61 * 2 * 8, 32)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork")
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    losses = []

    def steps(reporter):
        handle = register(optimizer, reporter)
        for i, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(net(x), y)
            (loss / 2).backward()
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
                yield
        handle.remove()

    assert restarted_in_the_middle(place, "torch", steps) == (20, 40)
    assert len(losses) == 61 and losses[-1] < losses[0], "it did train"
    optimizer.step()
    assert place.steps("torch") == 40, "the hook is gone"
    assert not stepcast_reporter._cuda_in_use()
    print(f"  torch {torch.__version__}: loss {losses[0]:.2f} to {losses[-1]:.2f} over the restart")


RANK = """
import os
import torch
import torch.distributed as dist
from stepcast_reporter import StepReporter, gather_nodes, register

torch.set_num_threads(1)
assert gather_nodes() == [os.environ["NODE_NAME"]]
dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with StepReporter(os.environ["SIDECAR"], "ranks", os.environ["JOB"], gather_nodes()) as reporter:
    register(optimizer, reporter)
    for _ in range(11):
        net(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()
"""


def torch_with_two_ranks(place):
    """Both have a reporter; only that of rank 0 reports, and it knows both nodes."""
    env = {
        **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2",
        "USE_LIBUV": "0",  # Debian's torch is built without.
        "SIDECAR": place.socket, "JOB": json.dumps(JOB), "PYTHONPATH": os.pathsep.join(sys.path),
    }
    of_rank = lambda r: {**env, "RANK": str(r), "NODE_NAME": f"fast-{r}"}
    ranks = [subprocess.Popen([sys.executable, "-c", RANK], env=of_rank(r)) for r in range(2)]
    try:
        assert [rank.wait(120) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    assert place.steps("ranks") == 10


def lightning_training(place):
    """Trainer with accumulation, validation, a checkpoint and a job that goes on from it."""
    import torch

    module, pl = FRAMEWORK, sys.modules[FRAMEWORK]
    logging.getLogger(module).setLevel(logging.ERROR)
    base = stepcast_reporter.StepcastCallback
    assert issubclass(base, pl.Callback) and pickle.loads(pickle.dumps(base)) is base

    class Net(pl.LightningModule):
        def __init__(self, manual):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)
            self.automatic_optimization = not manual

        def training_step(self, batch, _):
            loss = self.layer(batch).square().mean()
            if not self.automatic_optimization:
                for optimizer in self.optimizers():
                    optimizer.zero_grad()
                self.manual_backward(loss)
                for optimizer in self.optimizers():
                    optimizer.step()
                return None
            return loss

        def validation_step(self, batch, _):
            time.sleep(1)

        def configure_optimizers(self):
            one = torch.optim.SGD([self.layer.weight], lr=0.1)
            two = torch.optim.SGD([self.layer.bias], lr=0.1)
            both = torch.optim.SGD(self.parameters(), lr=0.1)
            return both if self.automatic_optimization else [one, two]

    def fit(job_id, epochs, manual=False, path=None, **options):
        data = torch.utils.data.DataLoader(torch.randn(21 * 4, 8), batch_size=4)
        checks = torch.utils.data.DataLoader(torch.randn(4, 8), batch_size=4)
        reporter = place.reporter(job_id, every_s=NEVER)
        trainer = pl.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, callbacks=[base(reporter)], **options)
        trainer.fit(Net(manual), data, checks, ckpt_path=path)
        slowest = max(seconds for _, seconds in reporter._waiting)
        assert slowest < 0.9, f"validation counts: {slowest}"
        reporter.close()
        return trainer

    # 21 batches are 10 pairs and a rest: 11 steps an epoch.
    trainer = fit(module, 2, accumulate_grad_batches=2, val_check_interval=10)
    assert trainer.global_step == 22 and place.steps(module) == 21, place.steps(module)
    trainer.save_checkpoint(place.folder / "saved.ckpt")
    trainer = fit(module, 3, path=place.folder / "saved.ckpt", accumulate_grad_batches=2)
    assert trainer.global_step == 33 and place.steps(module) == 21 + 10, place.steps(module)
    # Two optimizers by hand: one step a batch, though Lightning counts two.
    trainer = fit(f"{module}-manual", 1, manual=True)
    assert trainer.global_step == 42 and place.steps(f"{module}-manual") == 20
    print(f"  {module} {pl.__version__}")


def nothing_is_imported_that_is_not_used(place):
    assert not {"torch", "lightning", "pytorch_lightning", "google.protobuf.message"} & imported_by_the_reporter()


def imported_by_the_reporter():
    script = "import sys, stepcast_reporter; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


PLAIN = [
    nothing_is_imported_that_is_not_used,
    the_messages_are_those_of_the_proto,
    a_plain_loop,
    pauses_are_no_part_of_a_step,
    a_plain_loop_over_a_restart,
    answers_that_are_lost,
    a_full_buffer,
    refused,
    ends_in_time,
    without_close,
    other_processes,
    tokens_and_tls,
]


def main():
    checks = PLAIN
    if FRAMEWORK:
        checks = [torch_training, torch_with_two_ranks] if FRAMEWORK == "torch" else [lightning_training]
    with tempfile.TemporaryDirectory() as name:
        place = Place(pathlib.Path(name))
        place.start()
        try:
            for check in checks:
                begin = time.perf_counter()
                check(place)
                print(f"{check.__name__.replace('_', ' ')}: {time.perf_counter() - begin:.1f} s", flush=True)
        finally:
            place.sidecar.process.kill()
    if not FRAMEWORK:
        # Each alone: the callback is made for one of Lightning's two packages.
        for framework in FRAMEWORKS:
            subprocess.run([sys.executable, __file__, PROGRAM, framework], check=True, timeout=600)


if __name__ == "__main__":
    main()
