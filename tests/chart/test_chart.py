"""What the chart renders, and that its alerts and dashboards name real things.

    HELM=helm [STEPCAST=target/release/stepcast] [METRICS=dump.txt] python test_chart.py

Needs PyYAML. STEPCAST, a built program, lets the chart's flags be held
against `serve --help`; METRICS, a dump of /metrics, takes the place of the
names in the source.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import subprocess
import unittest
from typing import Any

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHART = ROOT / "charts/stepcast"
HELM = os.environ.get("HELM", "helm")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [HELM, "template", "stepcast", str(CHART), "-n", "ns", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@functools.cache
def objects(*arguments: str) -> dict[tuple[str, str], Any]:
    """What `helm template` prints, by kind and name."""
    done = helm(*arguments)
    if done.returncode:
        raise AssertionError(done.stderr)
    found = [o for o in yaml.safe_load_all(done.stdout) if o]
    named = {(o["kind"], o["metadata"]["name"]): o for o in found}
    assert len(named) == len(found), "two objects of one name"
    return named


def values(name: str) -> tuple[str, str]:
    return "-f", str(HERE / f"values/{name}.yaml")


def pod(*arguments: str) -> Any:
    return objects(*arguments)["Deployment", "stepcast"]["spec"]["template"]["spec"]


def container(*arguments: str) -> Any:
    (only,) = pod(*arguments)["containers"]
    return only


def kinds(*arguments: str) -> set[str]:
    return {kind for kind, _ in objects(*arguments)}


def settings(*pairs: str) -> tuple[str, ...]:
    return tuple(part for pair in pairs for part in ("--set", pair))


SETS: dict[str, tuple[str, ...]] = {
    "default": (),
    "minimal": values("minimal"),
    "everything": values("everything"),
    "replicas": values("replicas"),
}


class Defaults(unittest.TestCase):
    def test_what_is_installed(self) -> None:
        self.assertEqual(
            kinds(),
            {"Deployment", "Service", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "PersistentVolumeClaim", "NetworkPolicy"},
        )

    def test_one_replica_keeps_its_observations(self) -> None:
        deployment = objects()["Deployment", "stepcast"]["spec"]
        self.assertEqual(deployment["replicas"], 1)
        self.assertEqual(deployment["strategy"], {"type": "Recreate"})
        self.assertIn("--data-dir=/data", container()["args"])
        self.assertIn({"name": "data", "mountPath": "/data"}, container()["volumeMounts"])
        claim = objects()["PersistentVolumeClaim", "stepcast"]
        self.assertEqual(claim["metadata"]["annotations"]["helm.sh/resource-policy"], "keep")
        self.assertNotIn("storageClassName", claim["spec"])

    def test_flags(self) -> None:
        args = container()["args"]
        self.assertEqual(args[0], "serve")
        for flag in ("--listen=0.0.0.0:7443", "--metrics=0.0.0.0:9464", "--extender=0.0.0.0:9465", "--kube"):
            self.assertIn(flag, args)
        for flag in ("--no-recalibrate", "--tls-cert", "--token-file", "--observe", "--calibration", "--cluster"):
            self.assertFalse([a for a in args if a.startswith(flag)], flag)

    def test_service_ports_reach_the_container(self) -> None:
        for name, arguments in SETS.items():
            with self.subTest(name):
                own = {p["name"] for p in container(*arguments)["ports"]}
                service = objects(*arguments)["Service", "stepcast"]["spec"]["ports"]
                self.assertEqual({p["targetPort"] for p in service}, own)

    def test_large_numbers_stay_numbers(self) -> None:
        self.assertIn("--max-jobs=1000000", container("--set-json", "maxJobs=1000000")["args"])

    def test_nothing_is_rendered_in_another_namespace(self) -> None:
        for name, arguments in SETS.items():
            for (kind, _), found in objects(*arguments).items():
                if not kind.startswith("ClusterRole"):
                    self.assertEqual(found["metadata"]["namespace"], "ns", (name, kind))


class Security(unittest.TestCase):
    def test_pods_are_restricted(self) -> None:
        for name, arguments in SETS.items():
            with self.subTest(name):
                outer, inner = pod(*arguments)["securityContext"], container(*arguments)["securityContext"]
                self.assertTrue(outer["runAsNonRoot"])
                self.assertEqual(outer["runAsUser"], 65532)
                self.assertEqual(outer["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertFalse(inner["allowPrivilegeEscalation"])
                self.assertTrue(inner["readOnlyRootFilesystem"])
                self.assertEqual(inner["capabilities"], {"drop": ["ALL"]})

    def test_rights_are_to_list_and_watch_nodes_and_pods(self) -> None:
        rules = objects()["ClusterRole", "ns-stepcast"]["rules"]
        self.assertEqual(rules, [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}])
        (subject,) = objects()["ClusterRoleBinding", "ns-stepcast"]["subjects"]
        self.assertEqual(subject, {"kind": "ServiceAccount", "name": "stepcast", "namespace": "ns"})

    def test_a_file_of_nodes_needs_no_rights_and_no_token(self) -> None:
        self.assertFalse(kinds(*SETS["minimal"]) & {"ClusterRole", "ClusterRoleBinding", "ServiceAccount"})
        self.assertFalse(pod(*SETS["minimal"])["automountServiceAccountToken"])
        self.assertFalse(objects()["ServiceAccount", "stepcast"]["automountServiceAccountToken"])

    def test_tls_and_tokens(self) -> None:
        args = container(*SETS["everything"])["args"]
        for flag in (
            "--tls-cert=/etc/stepcast/tls/tls.crt", "--tls-key=/etc/stepcast/tls/tls.key",
            "--tls-client-ca=/etc/stepcast/tls/ca.crt", "--allow-name=scheduler",
            "--allow-name=spiffe://cluster/ns/ml/sa/trainer", "--token-file=/etc/stepcast/tokens/tokens", "--protect-reading",
        ):
            self.assertIn(flag, args)
        without = container(*settings("tls.secretName=t"))["args"]
        self.assertFalse([a for a in without if a.startswith("--tls-client-ca")])

    def test_every_path_in_a_flag_is_mounted_and_every_mount_has_a_volume(self) -> None:
        for name, arguments in SETS.items():
            with self.subTest(name):
                mounts = container(*arguments).get("volumeMounts", [])
                for argument in container(*arguments)["args"]:
                    path = argument.partition("=")[2]
                    if path.startswith("/"):
                        self.assertTrue(any(path == m["mountPath"] or path.startswith(m["mountPath"] + "/") for m in mounts), argument)
                volumes = {v["name"] for v in pod(*arguments).get("volumes", [])}
                self.assertEqual({m["name"] for m in mounts}, volumes)
                self.assertFalse([m for m in mounts if "subPath" in m], "a changed secret would not reach the pod")


class Replicas(unittest.TestCase):
    def test_several_have_no_volume_and_do_not_learn(self) -> None:
        deployment = objects(*SETS["replicas"])["Deployment", "stepcast"]["spec"]
        self.assertEqual(deployment["strategy"]["type"], "RollingUpdate")
        self.assertNotIn("PersistentVolumeClaim", kinds(*SETS["replicas"]))
        args = container(*SETS["replicas"])["args"]
        self.assertIn("--no-recalibrate", args)
        self.assertFalse([a for a in args if a.startswith("--data-dir")])

    def test_they_share_a_calibration(self) -> None:
        self.assertIn("--calibration=/etc/stepcast/config/calibration.yaml", container(*SETS["replicas"])["args"])
        config = objects(*SETS["replicas"])["ConfigMap", "stepcast"]
        self.assertIn("version: fitted-1", config["data"]["calibration.yaml"])

    def test_they_may_not_all_go_at_once(self) -> None:
        budget = objects(*SETS["replicas"])["PodDisruptionBudget", "stepcast"]["spec"]
        self.assertEqual(budget["maxUnavailable"], 1)
        selector = objects(*SETS["replicas"])["Deployment", "stepcast"]["spec"]["selector"]
        self.assertEqual(budget["selector"], selector)
        for one in ("default", "minimal", "everything"):
            self.assertNotIn("PodDisruptionBudget", kinds(*SETS[one]))

    def test_they_are_spread_and_drain(self) -> None:
        keys = [c["topologyKey"] for c in pod(*SETS["replicas"])["topologySpreadConstraints"]]
        self.assertEqual(keys, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
        self.assertNotIn("topologySpreadConstraints", pod())
        for constraint in pod(*SETS["replicas"])["topologySpreadConstraints"] + pod(*SETS["everything"])["topologySpreadConstraints"]:
            own = objects()["Deployment", "stepcast"]["spec"]["selector"]
            self.assertEqual(constraint["labelSelector"], own)
        self.assertEqual(container(*SETS["replicas"])["lifecycle"], {"preStop": {"sleep": {"seconds": 5}}})
        self.assertEqual(pod(*SETS["replicas"])["terminationGracePeriodSeconds"], 30)
        self.assertNotIn("lifecycle", container())
        old = container(*SETS["replicas"], "--kube-version", "1.28.0")
        self.assertNotIn("lifecycle", old, "1.28 has no sleep")


class Config(unittest.TestCase):
    def test_observe_is_a_file(self) -> None:
        config = objects(*SETS["everything"])["ConfigMap", "stepcast"]["data"]
        self.assertEqual(yaml.safe_load(config["observe.yaml"])["sources"][1], {"id": "${file}", "log": {"path": "/logs/*.log", "preset": "nemo"}})
        self.assertIn("--observe=/etc/stepcast/config/observe.yaml", container(*SETS["everything"])["args"])

    def test_texts_reach_the_file_as_they_are(self) -> None:
        text = "  indented: 1\n# comment {{ not a template }}\nlast: x"
        found = objects("--set-json", f"calibration.contents={json.dumps(text)}")
        self.assertEqual(found["ConfigMap", "stepcast"]["data"]["calibration.yaml"], text)

    def test_a_changed_file_restarts_pods(self) -> None:
        def annotation(text: str) -> str:
            found = objects(*settings(f"calibration.contents={text}"))["Deployment", "stepcast"]
            return found["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

        self.assertNotEqual(annotation("a"), annotation("b"))

    def test_probes(self) -> None:
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            self.assertEqual(container()[probe]["httpGet"], {"path": path, "port": "metrics"})

    def test_claims(self) -> None:
        found = objects(*settings("persistence.existingClaim=mine"))
        self.assertFalse([kind for kind, _ in found if kind == "PersistentVolumeClaim"])
        volumes = found["Deployment", "stepcast"]["spec"]["template"]["spec"]["volumes"]
        self.assertIn({"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}, volumes)
        none = objects(*settings("persistence.storageClass=-"))["PersistentVolumeClaim", "stepcast"]
        self.assertEqual(none["spec"]["storageClassName"], "")

    def test_network_policy(self) -> None:
        spec = objects()["NetworkPolicy", "stepcast"]["spec"]
        self.assertEqual(spec["policyTypes"], ["Ingress"])
        self.assertEqual([r["ports"][0]["port"] for r in spec["ingress"]], ["grpc", "metrics", "extender"])
        full = objects(*SETS["everything"])["NetworkPolicy", "stepcast"]["spec"]
        self.assertEqual(full["policyTypes"], ["Ingress", "Egress"])
        self.assertEqual(full["ingress"][2]["from"], [{"ipBlock": {"cidr": "192.168.1.0/28"}}])
        self.assertEqual(len(full["egress"]), 4)
        closed = objects(*SETS["minimal"], *settings("networkPolicy.enabled=true", "networkPolicy.egress.enabled=true", "networkPolicy.egress.dns=false"))
        self.assertEqual(closed["NetworkPolicy", "stepcast"]["spec"]["egress"], [], "nothing is let out")

    def test_monitoring(self) -> None:
        found = objects(*SETS["everything"])
        (endpoint,) = found["ServiceMonitor", "stepcast"]["spec"]["endpoints"]
        self.assertIs(endpoint["honorLabels"], True, "`job` is the training job")
        for board in ("predictions", "sidecar"):
            config = found["ConfigMap", f"stepcast-dashboard-{board}"]
            self.assertEqual(config["metadata"]["labels"]["grafana_dashboard"], "1")
            self.assertEqual(json.loads(config["data"][f"stepcast-{board}.json"]), json.loads((CHART / f"files/{board}.json").read_text()))

    def test_names(self) -> None:
        other = {name for _, name in objects(*settings("fullnameOverride=predictor"))}
        self.assertEqual(other, {"predictor", "ns-predictor"})


class Rules(unittest.TestCase):
    def rules(self, *arguments: str) -> dict[str, Any]:
        spec = objects(*arguments)["PrometheusRule", "stepcast"]["spec"]
        return {r.get("alert") or r["record"]: r for g in spec["groups"] for r in g["rules"]}

    def test_the_tested_file_is_what_is_installed(self) -> None:
        file = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
        same = {r.get("alert") or r["record"]: r for g in file["groups"] for r in g["rules"]}
        self.assertEqual(self.rules(*settings("prometheusRule.enabled=true")), same)

    def test_changes(self) -> None:
        found = self.rules(*SETS["everything"])
        self.assertNotIn("StepcastDefaultedFacts", found)
        changed = found["StepcastPredictionErrorHigh"]
        self.assertEqual((changed["for"], changed["labels"]), ("2h", {"severity": "info"}))
        self.assertEqual(changed["annotations"]["runbook_url"], "https://wiki.example/stepcast/runbooks#stepcastpredictionerrorhigh")
        self.assertIn("summary", changed["annotations"])

    def test_a_file_of_nodes_is_never_stale(self) -> None:
        self.assertNotIn("StepcastInventoryStale", self.rules(*SETS["minimal"], *settings("prometheusRule.enabled=true")))

    def test_every_alert_is_complete_and_has_a_runbook_and_tests(self) -> None:
        file = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
        runbooks = (ROOT / "docs/runbooks.md").read_text()
        anchors = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", runbooks, re.MULTILINE)}
        tests = yaml.safe_load((HERE / "alerts_test.yaml").read_text())["tests"]
        cases = [case for test in tests for case in test.get("alert_rule_test", [])]
        alerts = [r for g in file["groups"] for r in g["rules"] if "alert" in r]
        for alert in alerts:
            with self.subTest(alert["alert"]):
                self.assertIn(alert["labels"]["severity"], {"info", "warning", "critical"})
                self.assertEqual(set(alert["annotations"]), {"summary", "description", "runbook_url"})
                page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
                self.assertEqual(page, "docs/runbooks.md")
                self.assertIn(anchor, anchors)
                fires = [bool(c["exp_alerts"]) for c in cases if c["alertname"] == alert["alert"]]
                self.assertEqual(set(fires), {True, False}, "tested firing and silent")
        sections = {a for a in anchors if a.startswith("stepcast")}
        self.assertEqual(sections, {a["alert"].lower() for a in alerts}, "a runbook without an alert")


class Refusals(unittest.TestCase):
    def refused(self, words: str, *arguments: str) -> None:
        done = helm(*arguments)
        self.assertNotEqual(done.returncode, 0, f"{arguments} was accepted")
        self.assertIn(words, done.stderr)

    def test_the_schema_refuses(self) -> None:
        for setting, words in [
            ("replica=2", "replica is not allowed"),
            ("image.tags=x", "tags is not allowed"),
            ("replicas=two", "replicas"),
            ("replicas=-1", "replicas"),
            ("maxJobs=0", "maxJobs"),
            ("log.level=loud", "log.level"),
            ("service.ports.grpc=70000", "service.ports.grpc"),
            ("service.type=ExternalName", "service.type"),
            ("inventory.defaultNicGbps=fast", "defaultNicGbps"),
            ("inventory.defaultNicGbps=-3", "defaultNicGbps"),
            ("persistence.size=big", "persistence.size"),
            ("image.digest=sha256:abc", "image.digest"),
            ("image.repository=", "image.repository"),
            ("listenAddress=everywhere", "listenAddress"),
            ("serviceMonitor.interval=often", "serviceMonitor.interval"),
            ("commonLabels.a=1", "commonLabels.a"),
            ("networkPolicy.from.grpc[0].pods=x", "pods is not allowed"),
            ("prometheusRule.overrides.StepcastDown.severity=info", "severity is not allowed"),
            ("resources.limits.memory=lots", "resources.limits.memory"),
            ("livenessProbe.httpGet=x", "httpGet is not allowed"),
            ("tls.secretName=Not_A_Name", "tls.secretName"),
        ]:
            with self.subTest(setting):
                self.refused(words, *settings(setting))

    def test_contradictions_are_told_in_words(self) -> None:
        for words, pairs in [
            ("inventory.kube=false", ["inventory.cluster=x"]),
            ("only one can be in force", ["calibration.contents=x", "calibration.existingConfigMap=y"]),
            ("need tls.secretName", ["tls.clientCertificates=true"]),
            ("needs tls.clientCertificates", ["tls.secretName=t", "tls.allowNames={a}"]),
            ("nobody could read", ["protectReading=true"]),
            ("there is no alert named StepcastDwon", ["prometheusRule.enabled=true", "prometheusRule.disabled={StepcastDwon}"]),
        ]:
            with self.subTest(words):
                self.refused(words, *settings(*pairs))

    def test_the_schema_knows_every_value_and_refuses_unknown_ones_everywhere(self) -> None:
        schema = json.loads((CHART / "values.schema.json").read_text())

        def walk(path: str, node: Any, known: Any) -> None:
            while "$ref" in node:
                node = schema["definitions"][node["$ref"].rsplit("/", 1)[1]]
            if "properties" in node:
                self.assertIs(node.get("additionalProperties"), False, path)
                self.assertLessEqual(set(known or {}), set(node["properties"]), path)
                for key, child in node["properties"].items():
                    if isinstance(known, dict) and key in known:
                        walk(f"{path}.{key}", child, known[key])

        walk("", schema, yaml.safe_load((CHART / "values.yaml").read_text()))


# --- Metrics --------------------------------------------------------------

# Promised to be there; held against the source as soon as it has them.
PROMISED: dict[str, set[str]] = {}
# Of others: what the process and the kubelet may export.
FOREIGN = {"process_resident_memory_bytes", "process_cpu_seconds_total", "container_memory_working_set_bytes", "container_cpu_usage_seconds_total"}
# Put on by the scrape.
TARGET = {"instance", "namespace", "pod", "job"}


def exported() -> dict[str, set[str] | None]:
    """Names of metrics, and their labels where they are known."""
    dump = os.environ.get("METRICS")
    if dump:
        names: dict[str, set[str] | None] = {}
        for line in pathlib.Path(dump).read_text().splitlines():
            if line.startswith("# TYPE "):
                names[line.split()[2]] = None
        return names
    names = {}
    for path in (ROOT / "src").rglob("*.rs"):
        text = path.read_text()
        for match in re.finditer(r'"(stepcast_[a-z_]+)"', text):
            rest = text[match.end() : match.end() + 400]
            labels = re.search(r"&\[((?:\"[a-z_]+\",?\s*)+)\]", rest)
            stop = re.search(r'"stepcast_[a-z_]+"', rest)
            if labels and (not stop or labels.start() < stop.start()):
                names[match[1]] = set(re.findall(r'"([a-z_]+)"', labels[1]))
            else:
                names.setdefault(match[1], None)
    return names


def expressions() -> list[tuple[str, str]]:
    """Every query of dashboards and alerts, with where it stands."""
    found = []
    for path in CHART.glob("files/*.json"):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            found += [(f"{path.stem}: {panel['title']}", t["expr"]) for t in panel.get("targets", [])]
        found += [(f"{path.stem}: {v['name']}", v["query"]["query"]) for v in board["templating"]["list"] if v["type"] == "query"]
        found += [(f"{path.stem}: {a['name']}", a["expr"]) for a in board["annotations"]["list"] if "expr" in a]
    rules = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    for group in rules["groups"]:
        found += [(r.get("alert") or r["record"], r["expr"]) for r in group["rules"]]
    return found


class Metrics(unittest.TestCase):
    def test_every_metric_is_exported(self) -> None:
        known = exported()
        missing = sorted(set(PROMISED) - set(known))
        if missing:
            print(f"\n!! not in the source yet, taken on trust: {', '.join(missing)}")
        for name in missing:
            known[name] = PROMISED[name]
        for where, expr in expressions():
            for name in re.findall(r"(?<![\w:])([a-z]+_[a-z_]*[a-z])(?=\s*(?:\{|\[|\)|,|$|\n| [<>=*/+-]| and| or))", expr):
                if not name.startswith(("stepcast_", "process_", "container_")):
                    continue
                base = re.sub(r"_(bucket|sum|count)$", "", name) if name not in known else name
                self.assertTrue(base in known or name in FOREIGN, f"{where}: no metric named {name}")

    def test_every_label_is_the_metric_s_own(self) -> None:
        known = {**PROMISED, **exported()}
        for where, expr in expressions():
            for name, inside in re.findall(r"\b(stepcast_[a-z_]+)\{([^}]*)\}", expr):
                labels = known.get(re.sub(r"_bucket$", "", name))
                if labels is None:
                    continue
                used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside))
                self.assertLessEqual(used, labels | TARGET, f"{where}: {name}")


class Dashboards(unittest.TestCase):
    def boards(self) -> list[Any]:
        return [json.loads(p.read_text()) for p in sorted(CHART.glob("files/*.json"))]

    def test_they_are_whole(self) -> None:
        for board in self.boards():
            self.assertEqual(board["schemaVersion"], 42)
            self.assertIsNone(board["id"], "an id of somebody's Grafana")
            self.assertEqual(board["templating"]["list"][0]["type"], "datasource")
            self.assertTrue(any(link["tags"] == ["stepcast"] for link in board["links"]))
            ids = [p["id"] for p in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)))
            variables = {v["name"] for v in board["templating"]["list"]}
            for panel in board["panels"]:
                with self.subTest(panel["title"]):
                    if panel["type"] == "row":
                        continue
                    self.assertTrue(panel["description"])
                    self.assertTrue(panel["targets"])
                    for target in panel["targets"]:
                        self.assertEqual(target["datasource"]["uid"], "${datasource}")
                        used = set(re.findall(r"\$(\w+)", target["expr"]))
                        self.assertLessEqual({u for u in used if not u.startswith("__")}, variables)
                    if panel["type"] in {"timeseries", "stat"}:
                        self.assertIn("unit", panel["fieldConfig"]["defaults"])

    def test_panels_do_not_overlap(self) -> None:
        for board in self.boards():
            taken: dict[tuple[int, int], str] = {}
            for panel in board["panels"]:
                g = panel["gridPos"]
                self.assertLessEqual(g["x"] + g["w"], 24)
                for x in range(g["x"], g["x"] + g["w"]):
                    for y in range(g["y"], g["y"] + g["h"]):
                        self.assertNotIn((x, y), taken, f"{panel['title']} on {taken.get((x, y))}")
                        taken[x, y] = panel["title"]

    def test_uids_are_fixed_and_differ(self) -> None:
        self.assertEqual({b["uid"] for b in self.boards()}, {"stepcast-predictions", "stepcast-sidecar"})


class Program(unittest.TestCase):
    def test_every_flag_is_one_of_the_program_s(self) -> None:
        program = os.environ.get("STEPCAST")
        if not program:
            self.skipTest("no STEPCAST: flags are not held against a program")
        text = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        flags = set(re.findall(r"^\s+(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))
        used = {a.partition("=")[0] for arguments in SETS.values() for a in container(*arguments)["args"] if a.startswith("--")}
        self.assertEqual(used - flags, set(), "flags that `stepcast serve` does not have")


class Image(unittest.TestCase):
    def test_the_build_gets_every_file_it_reads(self) -> None:
        ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
        for path in [ROOT / "build.rs", *(ROOT / "src").rglob("*.rs")]:
            text = path.read_text().split("#[cfg(test)]")[0]
            for name in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', text):
                file = (path.parent / name).resolve().relative_to(ROOT)
                self.assertFalse([i for i in ignored if str(file) == i or str(file).startswith(i + "/")], f"{path.name} reads {file}")

    def test_versions_agree(self) -> None:
        version = re.findall(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[0]
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        dockerfile = (ROOT / "deploy/Dockerfile").read_text()
        self.assertEqual(chart["appVersion"], version)
        self.assertIn(f"ARG VERSION={version}\n", dockerfile)
        (toolchain,) = re.findall(r'channel = "(.*)"', (ROOT / "rust-toolchain.toml").read_text())
        self.assertIn(f"FROM rust:{toolchain}-", dockerfile)


if __name__ == "__main__":
    unittest.main()
