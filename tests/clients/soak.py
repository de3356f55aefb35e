"""The sidecar for minutes: good, bad and cancelled calls while nodes churn.

    python soak.py PROGRAM SECONDS

Needs the API server of tests/tools (its folder is made here). Fails when
memory grows after the first minute, or when an answer is not what was asked
for.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
PROGRAM, SECONDS = sys.argv[1], float(sys.argv[2])
from end_to_end import Sidecar, call, free_port, messages  # noqa: E402

NODES = 300
ASSETS = pathlib.Path(os.environ.get("KUBEBUILDER_ASSETS") or os.environ.get("STEPCAST_ASSETS") or pathlib.Path.home() / ".cache/stepcast/assets")


def tool(*args):
    subprocess.run(["bash", ROOT / "tests/tools/apiserver.sh", *map(str, args)], check=True, capture_output=True,
                   env={**os.environ, "OWNER_PID": str(os.getpid())})


def node(name, nic):
    types = ["Tesla-V100-SXM2-16GB", "NVIDIA-L4", "Tesla-T4"]
    return (f'{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name}", "labels": {{'
            f'"nvidia.com/gpu.product": "{types[hash(name) % 3]}", "nvidia.com/gpu.count": "8", "stepcast.dev/nic-gbps": "{nic}"}}}},'
            f'"status": {{"allocatable": {{"nvidia.com/gpu": "8"}}, "conditions": [{{"type": "Ready", "status": "True"}}]}}}}')


def rss(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        of = messages(folder)
        cluster = folder / "cluster"
        tool("start", cluster, free_port(), free_port())
        kubectl = [ASSETS / "kubectl", "--kubeconfig", cluster / "admin.kubeconfig"]
        run = lambda *args, text=None: subprocess.run([*kubectl, *args], input=text, text=True, capture_output=True)
        try:
            run("create", "clusterrole", "sidecar", "--verb=get,list,watch", "--resource=nodes,pods")
            run("create", "clusterrolebinding", "sidecar", "--clusterrole=sidecar", "--user=sidecar")
            run("create", "-f", "-", text="\n---\n".join(node(f"n{i}", 25) for i in range(NODES)))
            os.environ["KUBECONFIG"] = str(cluster / "sidecar.kubeconfig")
            with Sidecar(folder, "--kube") as sidecar:
                soak(sidecar, of, run)
        finally:
            tool("stop", cluster)


def soak(sidecar, of, run):
    until = time.time() + SECONDS
    counts, wrong, lock = {}, [], threading.Lock()

    def count(what):
        with lock:
            counts[what] = counts.get(what, 0) + 1

    def request(names):
        r = of("PredictRequest")()
        r.job.workload.catalogue_name = random.choice(["resnet50", "vgg16", "alexnet"])
        r.job.batch_size = random.choice([8, 16, 32])
        r.job.strategy.all_reduce.SetInParent()
        r.nodes.names.extend(names)
        return r

    def caller(seed):
        rng = random.Random(seed)
        channel = grpc.insecure_channel(f"127.0.0.1:{sidecar.port}")
        while time.time() < until:
            names = [f"n{i}" for i in rng.sample(range(50), rng.randint(1, 8))]  # these are never deleted
            kind = rng.random()
            try:
                if kind < 0.6:
                    answer = call(channel, "Predictor/Predict", request(names), of("PredictResponse")).prediction
                    if answer.workers != 8 * len(names) or not answer.iteration_time_seconds > 0:
                        wrong.append(f"answer {answer}")
                    count("answered")
                elif kind < 0.75:
                    call(channel, "Predictor/Predict", request([*names, "nobody"]), of("PredictResponse"))
                    wrong.append("a bad call was answered")
                elif kind < 0.9:
                    rpc = channel.unary_unary("/stepcast.v1.Predictor/Predict", request_serializer=lambda m: m.SerializeToString(),
                                              response_deserializer=of("PredictResponse").FromString)
                    rpc.future(request(names)).cancel()
                    count("cancelled")
                else:
                    watch = channel.unary_stream("/stepcast.v1.Inventory/WatchNodes", request_serializer=lambda m: m.SerializeToString(),
                                                 response_deserializer=of("WatchNodesResponse").FromString)
                    stream = watch(of("WatchNodesRequest")(), timeout=10)
                    next(stream)
                    stream.cancel()
                    count("watched")
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.INVALID_ARGUMENT and 0.6 <= kind < 0.75:
                    count("refused")
                else:
                    wrong.append(f"{error.code()} {error.details()}")

    def churn():
        rng = random.Random(0)
        while time.time() < until:
            name = f"n{rng.randrange(50, NODES)}"
            if rng.random() < 0.3:
                run("delete", "node", name, "--wait=false")
                run("create", "-f", "-", text=node(name, rng.choice([10, 25, 100])))
            else:
                run("label", "--overwrite", "node", name, f"stepcast.dev/nic-gbps={rng.choice([10, 25, 40, 100])}")
            count("changed")

    for _ in range(100):
        channel = grpc.insecure_channel(f"127.0.0.1:{sidecar.port}")
        if len(call(channel, "Inventory/ListNodes", of("ListNodesRequest")(), of("ListNodesResponse")).nodes) == NODES:
            break
        time.sleep(0.1)
    threads = [threading.Thread(target=caller, args=(i,)) for i in range(8)] + [threading.Thread(target=churn)]
    for thread in threads:
        thread.start()
    start, sizes = time.time(), []
    while time.time() < until:
        sizes.append((time.time() - start, rss(sidecar.process.pid)))
        time.sleep(1)
    for thread in threads:
        thread.join()
    settled = [size for at, size in sizes if at >= min(60, SECONDS / 3)]
    third = max(len(settled) // 3, 1)
    early, late = sorted(settled[:third])[third // 2], sorted(settled[-third:])[third // 2]
    print(counts, f"memory {sizes[0][1]:.1f} MiB at first, {early:.1f} after the first minute, {late:.1f} at the end")
    assert not wrong, wrong[:5]
    assert late <= early * 1.05 + 2, "memory grows"


main()
