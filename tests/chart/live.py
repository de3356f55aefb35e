#!/usr/bin/env python3
"""A sidecar with something to do, a Prometheus that scrapes it, and the
dashboards and rules run on what it has seen.

    live.py PROGRAM PROMETHEUS [--seconds 90] [--png DIR] [--draw-with PYTHON]

Needs grpcio and grpcio-tools (`tests/tools/assets.sh python`). PYTHON is one
that has matplotlib, where pictures are wanted.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from typing import Any

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOKEN = "of-this-test"

# `bare` says nothing of its NIC: a defaulted fact to show.
CLUSTER = """
nodes:
- {name: fast, count: 2, accelerators: {type: NVIDIA-Quadro-RTX-4000, count: 1}, cpu: {type: xeon-e5-2660, cores: 8}, nic_gbps: 10}
- {name: slow, accelerators: {type: NVIDIA-GeForce-GTX-1060-6GB, count: 1}, cpu: {type: xeon-e5-2620, cores: 6}, nic_gbps: 10}
- {name: bare, accelerators: {type: NVIDIA-GeForce-GTX-1060-6GB, count: 1}, cpu: {type: xeon-e5-2620, cores: 6}}
"""

# Job, network, nodes, and what a step really takes of what is predicted.
JOBS = [
    ("train-a", "resnet50", ["fast-0", "fast-1"], 1.04),
    ("train-b", "resnet18", ["fast-0"], 0.93),
    ("train-c", "vgg16", ["slow", "bare"], 1.2),
    ("train-d", "mobilenet_v2", ["slow"], 1.6),
]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def until(what: str, url: str, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    for _ in range(400):
        try:
            get(url)
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
    raise SystemExit(f"{what} did not come up: {log.read_text()}")


def messages(folder: pathlib.Path) -> Any:
    """Classes of the project's messages, by name."""
    out = folder / "set.bin"
    protos = sorted(str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto").rglob("*.proto"))
    assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--descriptor_set_out={out}", *protos]) == 0
    files = {f.name: f for f in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file}
    pool = descriptor_pool.DescriptorPool()

    def add(name: str) -> None:
        for dependency in files[name].dependency:
            add(dependency)
        pool.Add(files[name])

    for name in files:
        add(name)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"stepcast.v1.{name}"))


class Traffic(threading.Thread):
    """Callers of every kind, until told to stop."""

    def __init__(self, of: Any, target: str, extender: str | None) -> None:
        super().__init__(daemon=True)
        self.of, self.extender, self.done = of, extender, threading.Event()
        self.channel = grpc.insecure_channel(target)
        self.error: Exception | None = None

    def call(self, method: str, request: Any, response: str, token: bool = False) -> Any:
        rpc = self.channel.unary_unary(
            f"/stepcast.v1.{method}",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=self.of(response).FromString,
        )
        return rpc(request, timeout=10, metadata=bearer() if token else ())

    def job(self, network: str) -> Any:
        job = self.of("Job")(batch_size=16)
        job.workload.catalogue_name = network
        job.strategy.all_reduce.SetInParent()
        return job

    def predict(self, network: str, nodes: list[str]) -> float:
        request = self.of("PredictRequest")(job=self.job(network))
        request.nodes.names.extend(nodes)
        return self.call("Predictor/Predict", request, "PredictResponse").prediction.iteration_time_seconds

    def report(self, name: str, network: str, nodes: list[str], seconds: list[float], token: bool = True) -> None:
        report = self.of("ReportStepsRequest")(job_id=name, job=self.job(network), nodes=nodes, step_seconds=seconds)
        rpc = self.channel.stream_unary(
            "/stepcast.v1.Observations/ReportSteps",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=self.of("ReportStepsResponse").FromString,
        )
        rpc(iter([report]), timeout=10, metadata=bearer() if token else ())

    def schedule(self, verb: str) -> None:
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]}}
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["fast-0", "slow"]}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{self.extender}/{verb}", body, headers), timeout=5).read()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - told by the main thread
            self.error = error

    def work(self) -> None:
        dice = random.Random(1)
        predicted = {name: self.predict(network, nodes) for name, network, nodes, _ in JOBS}
        turn = 0
        while not self.done.wait(0.25):
            turn += 1
            for name, network, nodes, factor in JOBS:
                self.predict(network, nodes)
                if turn % 4 == 0:
                    real = predicted[name] * factor
                    self.report(name, network, nodes, [real * dice.uniform(0.97, 1.03) for _ in range(5)])
            self.call("Inventory/ListNodes", self.of("ListNodesRequest")(), "ListNodesResponse")
            for wrong in (lambda: self.predict("no-such-network", ["slow"]),
                          lambda: self.report("x", "resnet18", ["slow"], [1.0], token=False)):
                try:
                    wrong()
                except grpc.RpcError:
                    pass
            if self.extender:
                self.schedule("filter")
                self.schedule("prioritize")
            if turn == 80:  # another version, to be seen in the timeline
                file = self.call("Calibration/Get", self.of("GetRequest")(), "GetResponse").file
                self.call("Calibration/Import", self.of("ImportRequest")(file=file), "ImportResponse", token=True)


def bearer() -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {TOKEN}"),)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("prometheus")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--png", type=pathlib.Path)
    parser.add_argument("--draw-with", default=sys.executable, metavar="PYTHON")
    arguments = parser.parse_args()
    grpc_port, metrics, extender, web = (free_port() for _ in range(4))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "cluster.yaml").write_text(CLUSTER)
        (folder / "tokens").write_text(TOKEN + "\n")
        (folder / "data").mkdir()
        # honor_labels, as the chart's ServiceMonitor has it.
        (folder / "prometheus.yml").write_text(
            json.dumps({
                "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
                "rule_files": [str(ROOT / "charts/stepcast/files/alerts.yaml")],
                "scrape_configs": [{
                    "job_name": "stepcast", "honor_labels": True,
                    "static_configs": [{"targets": [f"127.0.0.1:{metrics}"]}],
                }],
            })
        )
        serve = [
            arguments.program, "serve", f"--listen=127.0.0.1:{grpc_port}", f"--metrics=127.0.0.1:{metrics}",
            f"--cluster={folder / 'cluster.yaml'}", f"--token-file={folder / 'tokens'}", f"--data-dir={folder / 'data'}",
        ]
        flags = subprocess.run([arguments.program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        has_extender = "--extender" in flags
        if has_extender:
            serve.append(f"--extender=127.0.0.1:{extender}")
        else:
            print("!! this program has no --extender: its panels will be empty")
        running = []
        try:
            log = folder / "sidecar.log"
            sidecar = subprocess.Popen(serve, stderr=log.open("w"))
            running.append(sidecar)
            until("the sidecar", f"http://127.0.0.1:{metrics}/readyz", sidecar, log)
            prometheus = subprocess.Popen(
                [arguments.prometheus, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
                 f"--web.listen-address=127.0.0.1:{web}", "--log.level=error"],
                stderr=(folder / "prometheus.log").open("w"))
            running.append(prometheus)
            url = f"http://127.0.0.1:{web}"
            until("Prometheus", f"{url}/-/ready", prometheus, folder / "prometheus.log")
            traffic = Traffic(messages(folder), f"127.0.0.1:{grpc_port}", f"http://127.0.0.1:{extender}" if has_extender else None)
            traffic.start()
            traffic.join(arguments.seconds)
            command = [arguments.draw_with, str(HERE / "dashboards.py"), url, "--minutes", str(arguments.seconds / 60)]
            done = subprocess.run([*command, *(["--png", str(arguments.png)] if arguments.png else [])], check=False).returncode
            traffic.done.set()
            traffic.join(20)
            if traffic.error:
                print(log.read_text(), file=sys.stderr)
                raise traffic.error
            groups = json.loads(get(f"{url}/api/v1/rules"))["data"]["groups"]
            for rule in (r for g in groups for r in g["rules"]):
                if rule["health"] != "ok":
                    print(f"FAIL rule {rule['name']}: {rule['health']} {rule.get('lastError', '')}")
                    done = 1
            print(f"{sum(len(g['rules']) for g in groups)} rules evaluated")
            return done
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(30)


if __name__ == "__main__":
    sys.exit(main())
