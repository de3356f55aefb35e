"""The README's walk-through, run as written.

    python walkthrough.py PROGRAM ASSETS

A real API server with unequal nodes and a real kube-scheduler with the
extender stand for the reader's cluster. Every line of the section that begins
with `$` is run in one shell, in a copy of the files that it names.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from end_to_end import ROOT
from scheduler import ASSETS, Cluster, nodes  # takes ASSETS off sys.argv

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
# What a reader may expect to see.
WANTED = ["60 steps reported", 'stepcast_observed_step_seconds{job="train"} 0.21',
          'stepcast_predicted_step_seconds{job="train"', "all hold"]


def lines():
    """What the README tells to type."""
    text = (ROOT / "README.md").read_text()
    section = text.split("### Walk-through", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.S)
    typed = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(typed) > 8, typed
    return typed


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ["charts", "examples", "deploy"]:
            shutil.copytree(ROOT / part, folder / "repo" / part)
        bin = folder / "bin"
        bin.mkdir()
        for tool, path in [("stepcast", PROGRAM), ("helm", ASSETS / "helm"), ("kubectl", ASSETS / "kubectl"),
                           ("python", ASSETS / "python/bin/python")]:
            (bin / tool).write_text(f'#!/bin/sh\nexec "{path}" "$@"\n')
            (bin / tool).chmod(0o755)
        cluster = Cluster(folder / "kube", 9465)
        try:
            cluster.create(nodes())
            cluster.schedule(True)
            environment = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "HOME": name,
                           "KUBECONFIG": str(folder / "kube" / "admin.kubeconfig")}
            script = "set -euxo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + "\n".join(lines())
            done = subprocess.run(["bash", "-c", script], cwd=folder / "repo", env=environment, timeout=180,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(done.stdout)
            assert done.returncode == 0, done.returncode
            for wanted in WANTED:
                assert wanted in done.stdout, wanted
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
    print("the walk-through works as written")
