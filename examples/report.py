"""Reports the steps of a job that only pretends to train.

    python report.py NODE...

A real one would call `stepcast_reporter.register(optimizer, reporter)`.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deploy"))
import stepcast_reporter

job = {"workload": "resnet50", "batch_size": 64, "strategy": {"all_reduce": {"algorithm": "ring"}}}
with stepcast_reporter.StepReporter("127.0.0.1:7443", "train", job, nodes=sys.argv[1:], token_file="token") as reporter:
    for _ in range(60):
        reporter.record(0.21)
print("60 steps reported")
