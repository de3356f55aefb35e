"""The full circle: a sidecar, a real Prometheus that scrapes it, and jobs.

    python circle.py PROGRAM PROMETHEUS

A job reports steps that agree with the prediction; then its NIC silently
halves. The error shows in Prometheus, the sidecar fits anew by itself within
REPORTS reports, the version moves, and a rollback takes it back. Step times
of two more jobs are fetched: one from Prometheus, one from its log.
"""

import http.server
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

PROMETHEUS = sys.argv.pop()
from end_to_end import PROGRAM, Sidecar, call, free_port, messages  # reads sys.argv[1]

import grpc

# A report is 20 steps, one window. The error must have halved after so many.
REPORTS = 12
STEPS = 20

JOB = {"workload": "alexnet", "batch_size": 4, "strategy": {"all_reduce": {"algorithm": "ring", "fusion": {"buffer_mib": 25}}}}
NODES = ["n-0", "n-1", "n-2", "n-3"]


def cluster(folder, nic):
    path = folder / f"cluster-{nic}.yaml"
    path.write_text(f"nodes: [{{name: n, count: 4, cpu: {{type: lab-xeon-1t}}, nic_gbps: {nic}}}]\n")
    return path


def step_time(folder, nic, job=JOB):
    """What a job takes with this NIC, by the program itself."""
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    out = subprocess.run(
        [PROGRAM, "predict", "-j", path, "-c", cluster(folder, nic), "-o", "json"],
        check=True, capture_output=True,
    ).stdout
    return json.loads(out)["iteration_time_s"]


def until(what, condition, seconds=30):
    """Waits for a condition and gives what it gave."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


class Prometheus:
    def __init__(self, folder, targets, port):
        self.port = port
        self.url = f"http://127.0.0.1:{self.port}"
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{
                "job_name": "all",
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in targets]}],
            }],
        }))
        self.process = subprocess.Popen(
            [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"],
            stderr=subprocess.DEVNULL,
        )
        until("Prometheus is there", self.ready)

    def ready(self):
        try:
            return urllib.request.urlopen(f"{self.url}/-/ready", timeout=1).status == 200
        except OSError:
            return False

    def query(self, expression):
        url = f"{self.url}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        return json.load(urllib.request.urlopen(url, timeout=5))["data"]["result"]

    def value(self, expression):
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Exporter:
    """A job that shows its step time to Prometheus and to nobody else."""

    def __init__(self):
        self.seconds = 0.5
        exporter = self

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                text = f'train_step_ms{{job="pulled",hosts="n-0,n-1",network="resnet18"}} {exporter.seconds * 1e3}\n'
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Reporter:
    def __init__(self, channel, of):
        self.channel, self.of, self.next = channel, of, 1
        self.random = random.Random(7)

    def report(self, seconds):
        """A window of steps of about this length."""
        request = self.of("ReportStepsRequest")(job_id="circle", nodes=NODES, first_step=self.next)
        request.job.file = json.dumps(JOB)
        request.step_seconds.extend(seconds * self.random.lognormvariate(0, 0.02) for _ in range(STEPS))
        self.next += STEPS
        send = self.channel.stream_unary(
            "/stepcast.v1.Observations/ReportSteps",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=self.of("ReportStepsResponse").FromString,
        )
        answer = send(iter([request]), timeout=10, metadata=[("authorization", "Bearer circle")])
        assert answer.accepted_steps == STEPS, answer


def sources(folder, prometheus_port):
    """Where step times are fetched from: a query, and the lines of a log."""
    job = "workload: {}\nbatch_size: 4\nstrategy: {{all_reduce: {{algorithm: ring}}}}\n"
    path = folder / "observe.yaml"
    path.write_text(json.dumps({"sources": [
        {
            "prometheus": {"url": f"http://127.0.0.1:{prometheus_port}", "query": "train_step_ms", "step": "1s", "unit": "ms"},
            "every": "1s", "id": "${job}", "nodes": "${hosts}", "job": job.format("${network}"),
        },
        {
            "log": {"path": str(folder / "logs" / "*.log"), "preset": "nemo"},
            "every": "1s", "id": "log-${file}", "nodes": "n-2,n-3", "job": job.format("resnet18"),
        },
    ]}))
    return path


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "logs").mkdir()
        of = messages(folder)
        (folder / "tokens").write_text("circle\n")
        whole, halved = step_time(folder, 10), step_time(folder, 5)
        print(f"a step takes {whole:.3f} s with the whole NIC, {halved:.3f} s with half of it")
        assert halved > 1.3 * whole
        exporter = Exporter()
        # Each must know the other's port: the sidecar asks Prometheus, which scrapes it.
        prometheus_port = free_port()
        observe = sources(folder, prometheus_port)
        arguments = ["--cluster", cluster(folder, 10), "--data-dir", folder / "data",
                     "--token-file", folder / "tokens", "--observe", observe]
        with Sidecar(folder, *arguments) as sidecar:
            with Prometheus(folder, [sidecar.metrics, exporter.port], prometheus_port) as prometheus:
                circle(folder, sidecar, prometheus, of, whole, halved)
                fetched(folder, prometheus)


def circle(folder, sidecar, prometheus, of, whole, halved):
    channel = grpc.insecure_channel(f"127.0.0.1:{sidecar.port}")
    allowed = {"metadata": [("authorization", "Bearer circle")]}
    version = lambda: call(channel, "Calibration/Get", of("GetRequest")(), of("GetResponse")).version
    error_in_prometheus = lambda: prometheus.value('stepcast_prediction_error_ratio{job="circle"}')

    def error():
        jobs = call(channel, "Observations/ListJobs", of("ListJobsRequest")(), of("ListJobsResponse")).jobs
        return next(job.error_ratio for job in jobs if job.job_id == "circle")

    reporter = Reporter(channel, of)
    for _ in range(6):
        reporter.report(whole)
    assert abs(error()) < 0.1, error()
    until("a small error in Prometheus", lambda: (e := error_in_prometheus()) is not None and abs(e) < 0.1)
    before = version()

    # The NIC halves, and nobody says so.
    worst, reports = 0.0, 0
    while True:
        reporter.report(halved)
        reports += 1
        now = abs(error())
        worst = max(worst, now)
        if version() != before and worst > 0.15 and now < worst / 2:
            break
        assert reports < REPORTS, f"after {reports} reports the error is {now:.3f}, at worst {worst:.3f}, version {version()!r}"
        time.sleep(1.2)
    print(f"the error grew to {worst:.1%}; {reports} reports after the NIC halved it is {now:.1%} with {version()!r}")
    assert worst > 0.15, worst
    until("the version in Prometheus", lambda: prometheus.query(f'stepcast_calibration_info{{version="{version()}"}} == 1'))
    assert prometheus.value('max_over_time(abs(stepcast_prediction_error_ratio{job="circle"})[2m:1s])') > 0.15
    assert prometheus.value('stepcast_recalibrations_total{outcome="taken"}') >= 1
    assert prometheus.value('stepcast_calibration_error_ratio{group="all"}') is not None

    # Nobody reports while it is rolled back, so that nothing is learnt anew.
    learnt = error()
    call(channel, "Calibration/Rollback", of("RollbackRequest")(version=before or "shipped"), of("RollbackResponse"), **allowed)
    assert version() == before, version()
    assert abs(error()) > abs(learnt), (error(), learnt)
    shown = before or "shipped"
    until("the rollback in Prometheus", lambda: prometheus.query(f'stepcast_calibration_info{{version="{shown}"}} == 1'))
    print("rolled back:", shown)


def fetched(folder, prometheus):
    """Jobs that do not report: their times come out of Prometheus and of a log."""
    with open(folder / "logs" / "train.log", "w") as log:
        for step in range(60):
            print(f"Epoch 0: step {step} train_step_timing in s: 0.4{step % 10}", file=log)
    seen = lambda job: prometheus.value(f'stepcast_observed_step_seconds{{job="{job}"}}')
    until("step times from the log", lambda: seen("log-train"))
    assert 0.4 <= seen("log-train") < 0.5
    assert prometheus.value('stepcast_observed_steps_total{job="log-train"}') == 60
    until("step times from Prometheus", lambda: seen("pulled"), 60)
    assert abs(seen("pulled") - 0.5) < 1e-6, seen("pulled")
    print("fetched: log-train", seen("log-train"), "s, pulled", seen("pulled"), "s")


if __name__ == "__main__":
    main()
    print("the circle is closed")
