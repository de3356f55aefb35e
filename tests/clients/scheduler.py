"""The stock kube-scheduler, with stepcast's extender and without it.

    python scheduler.py PROGRAM ASSETS

A real API server with 50 unequal nodes. Gangs of 4 and of 8 pods are placed by
the default scheduler and then, the same pods, with the extender: the predicted
step of the placement must be at least 20 % shorter. The sidecar killed midway
leaves scheduling working. Prints the numbers.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

ASSETS = pathlib.Path(sys.argv.pop())
from end_to_end import PROGRAM, ROOT, Sidecar, call, free_port, messages  # reads sys.argv[1]

import grpc

TOOL = ROOT / "tests" / "tools" / "apiserver.sh"
# Kinds of nodes, as clusters grow over the years: card, cards a node, NIC in Gb/s, how many.
KINDS = [
    ("NVIDIA-A100-SXM4-80GB", 4, 100, 8),
    ("Tesla-V100-SXM2-16GB", 4, 25, 12),
    ("Tesla-T4", 1, 10, 14),
    ("Tesla-V100-SXM2-16GB", 4, 1, 6),
    ("Tesla-P100-PCIE-16GB", 2, 10, 10),
]
ANNOTATIONS = {
    "stepcast.dev/workload": "resnet50",
    "stepcast.dev/batch-size": "64",
    "stepcast.dev/strategy": "{all_reduce: {algorithm: ring, overlap: true, fusion: {buffer_mib: 25}}}",
}


def nodes():
    """The nodes, shuffled as names fall."""
    all_kinds = [kind for kind in KINDS for _ in range(kind[3])]
    for index in range(len(all_kinds)):
        product, gpus, nic, _ = all_kinds[index * 7 % len(all_kinds)]
        name = f"node-{index:02d}"
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        yield {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.count": str(gpus), "stepcast.dev/nic-gbps": str(nic),
            }},
            "status": {
                "capacity": room, "allocatable": room,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
                                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }


def pod(gang, index, size):
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": f"{gang}-{index}", "namespace": "default",
            "labels": {"batch.kubernetes.io/job-name": gang},
            "annotations": {**ANNOTATIONS, "stepcast.dev/workers": str(size)},
        },
        "spec": {"containers": [{
            "name": "train", "image": "train",
            "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}},
        }]},
    }


class Cluster:
    def __init__(self, folder, extender):
        self.folder, self.extender = folder, extender
        self.ports = [str(free_port()) for _ in range(3)]
        self.environment = {**os.environ, "KUBEBUILDER_ASSETS": str(ASSETS), "OWNER_PID": str(os.getpid())}
        self.scheduler = None
        subprocess.run(["bash", TOOL, "start", folder, *self.ports[:2]], check=True, env=self.environment)
        for _ in range(100):
            if subprocess.run([ASSETS / "kubectl", "--kubeconfig", folder / "admin.kubeconfig", "get", "namespace", "default"],
                              capture_output=True).returncode == 0:
                break
            time.sleep(0.2)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
        self.kubectl("apply", "-f", "-", text=json.dumps(account))

    def kubectl(self, *args, text=None):
        done = subprocess.run([ASSETS / "kubectl", "--kubeconfig", self.folder / "admin.kubeconfig", *args],
                              input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, objects):
        self.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def schedule(self, with_extender):
        """A scheduler of its own, as its configuration in deploy/ has it."""
        self.stop_scheduler()
        text = (ROOT / "deploy/kube-scheduler/config.yaml").read_text()
        text = text.replace("STEPCAST_ADDRESS:9465", f"127.0.0.1:{self.extender}")
        text = text.replace("/etc/kubernetes/scheduler.conf", str(self.folder / "scheduler.kubeconfig"))
        if not with_extender:
            text = text[:text.index("extenders:")]
        text += "\nleaderElection: {leaderElect: false}\n"
        config = self.folder / "scheduler.yaml"
        config.write_text(text)
        self.log = open(self.folder / "scheduler.log", "a")
        self.scheduler = subprocess.Popen(
            [ASSETS / "kube-scheduler", f"--config={config}", f"--secure-port={free_port()}", "--bind-address=127.0.0.1",
             f"--cert-dir={self.folder / 'scheduler-pki'}"],
            stdout=self.log, stderr=self.log,
        )

    def stop_scheduler(self):
        if self.scheduler:
            self.scheduler.kill()
            self.scheduler.wait()
            self.scheduler = None

    def placed(self, gang, size, seconds=60):
        """Where a gang went, once all of it is somewhere."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = json.loads(self.kubectl("get", "pods", "-l", f"batch.kubernetes.io/job-name={gang}", "-o", "json"))["items"]
            where = [p["spec"].get("nodeName") for p in found]
            if len(where) == size and all(where):
                return sorted(where)
            time.sleep(0.2)
        raise AssertionError(f"{gang} is not placed after {seconds} s: {where}; see the log:\n"
                             + (self.folder / "scheduler.log").read_text()[-3000:])

    def run(self, gang, size):
        self.create(pod(gang, index, size) for index in range(size))
        return self.placed(gang, size)

    def clear(self):
        self.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=true")

    def stop(self):
        self.stop_scheduler()
        subprocess.run(["bash", TOOL, "stop", self.folder], check=True, env=self.environment)


def step(channel, of, where):
    """The predicted step of a gang, one worker a pod."""
    request = of("PredictRequest")()
    request.job.file = "workload: resnet50\nbatch_size: 64\nstrategy: " + ANNOTATIONS["stepcast.dev/strategy"]
    kinds = {n["metadata"]["name"]: n for n in nodes()}
    for name in sorted(set(where)):
        labels = kinds[name]["metadata"]["labels"]
        request.nodes.nodes.add(name=name, accelerator_type=labels["nvidia.com/gpu.product"],
                                accelerator_count=where.count(name), nic_gbps=float(labels["stepcast.dev/nic-gbps"]))
    return call(channel, "Predictor/Predict", request, of("PredictResponse")).prediction.iteration_time_seconds


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        of = messages(folder)
        extender = free_port()
        cluster = Cluster(folder / "kube", extender)
        try:
            cluster.create(nodes())
            os.environ["KUBECONFIG"] = str(folder / "kube" / "admin.kubeconfig")
            with Sidecar(folder, "--kube", "--extender", f"127.0.0.1:{extender}") as sidecar:
                channel = grpc.insecure_channel(f"127.0.0.1:{sidecar.port}")
                compare(cluster, channel, of)
                metrics = urllib.request.urlopen(f"http://127.0.0.1:{sidecar.metrics}/metrics", timeout=5).read().decode()
                for line in metrics.splitlines():
                    if line.startswith("stepcast_extender_requests_total"):
                        print(line)
                assert 'stepcast_extender_requests_total{outcome="failed",verb="prioritize"} 0' in metrics
                # Half of a gang, then the sidecar dies; the rest is placed all the same.
                cluster.create(pod("orphan", index, 8) for index in range(4))
                cluster.placed("orphan", 4)
                sidecar.process.kill()
                sidecar.process.wait()
                cluster.create(pod("orphan", index, 8) for index in range(4, 8))
                print("without the sidecar:", cluster.placed("orphan", 8))
        finally:
            cluster.stop()


def compare(cluster, channel, of):
    times = {}
    for with_extender in [False, True]:
        cluster.schedule(with_extender)
        for size in [4, 8]:
            where = cluster.run(f"gang-{size}", size)
            times[with_extender, size] = step(channel, of, where)
            how = "with" if with_extender else "without"
            print(f"{size} pods {how} the extender: {times[with_extender, size] * 1e3:.0f} ms on {where}")
        cluster.clear()
    for size in [4, 8]:
        saved = 1 - times[True, size] / times[False, size]
        print(f"{size} pods: the step is {saved:.0%} shorter")
        assert saved >= 0.2, saved


if __name__ == "__main__":
    main()
    print("the scheduler listens")
