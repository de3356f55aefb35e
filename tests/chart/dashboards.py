#!/usr/bin/env python3
"""Runs every query of the dashboards on a real Prometheus.

    dashboards.py http://127.0.0.1:9090 [--minutes 10] [--png DIR]

Fails when a query is refused or finds nothing, but for those in RIGHTLY_EMPTY.
With --png (needs matplotlib) it also draws each dashboard from the same data
into DIR/NAME.png, so that a person can look at it: what Grafana would show,
without its looks. Nothing but the standard library is needed otherwise.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "charts/stepcast/files"

# (dashboard, panel, query) that may find nothing, and why that is right.
RIGHTLY_EMPTY = {
    ("sidecar", "Refused by method", "A"): "nobody without an identity has called",
    ("sidecar", "Defaulted facts", "A"): "every fact of every node is known",
    ("sidecar", "Memory", "A"): "the process exports none of its own",
    ("sidecar", "Memory", "B"): "no kubelet is scraped here",
    ("sidecar", "CPU", "A"): "the process exports none of its own",
    ("sidecar", "CPU", "B"): "no kubelet is scraped here",
    ("predictions", "New calibration", "annotation"): "no calibration was put in force meanwhile",
}

# What Grafana fills in. Variables stand for All, which is `.*` in these dashboards.
BUILT_IN = {"__rate_interval": "1m", "__interval": "15s", "__range": "10m"}


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def ask(self, path: str, **parameters: Any) -> Any:
        query = urllib.parse.urlencode({k: v for k, v in parameters.items() if v is not None}, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            body = error.read().decode(errors="replace")
            try:
                body = json.loads(body)["error"]
            except (ValueError, KeyError):
                pass
            raise ValueError(body) from None

    def instant(self, expr: str, at: float) -> list[dict[str, Any]]:
        found = self.ask("query", query=expr, time=at)
        if found["resultType"] == "scalar":
            found["result"] = [{"metric": {}, "value": found["result"]}]
        return [{"metric": s["metric"], "values": [s["value"]]} for s in found["result"]]

    def over(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        return self.ask("query_range", query=expr, start=start, end=end, step=step)["result"]


def filled_in(expr: str, variables: list[str]) -> str:
    """The query with Grafana's variables replaced; complains about others."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in BUILT_IN:
            return BUILT_IN[name]
        if name in variables:
            return ".*"
        raise ValueError(f"no variable named {name}")

    return re.sub(r"\$(?:(\w+)|\{(\w+)(?::\w+)?\})", value, expr)


def numbers(series: list[dict[str, Any]]) -> list[float]:
    values = [float(v) for s in series for _, v in s["values"]]
    return [v for v in values if math.isfinite(v)]


def metrics_of(expr: str) -> list[str]:
    """Names of metrics in a query: histograms by the name they are exported under."""
    names = re.findall(r"\b(?:stepcast|process|container)_\w+", expr)
    return sorted({re.sub(r"_bucket$", "", name) for name in names})


def label(target: dict[str, Any], metric: dict[str, str]) -> str:
    form = target.get("legendFormat") or ""
    if not form:
        return ", ".join(f"{k}={v}" for k, v in metric.items() if k != "__name__")
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda m: metric.get(m[1], ""), form)


class Check:
    def __init__(self, prometheus: Prometheus, minutes: float) -> None:
        self.prometheus = prometheus
        self.end = time.time()
        self.start = self.end - minutes * 60
        self.step = max(1.0, minutes * 60 / 240)
        self.known = set(prometheus.ask("label/__name__/values"))
        self.queries = self.failed = self.empty = 0

    def tell(self, where: tuple[str, str, str], what: str, ok: bool = False) -> None:
        if not ok:
            self.failed += 1
        print(f"{'ok  ' if ok else 'FAIL'} {where[0]}: {where[1]} [{where[2]}]: {what}")

    def run(self, where: tuple[str, str, str], expr: str, instant: bool) -> list[dict[str, Any]]:
        self.queries += 1
        try:
            series = (
                self.prometheus.instant(expr, self.end)
                if instant
                else self.prometheus.over(expr, self.start, self.end, self.step)
            )
        except ValueError as error:
            self.tell(where, f"refused: {error}\n       {expr}")
            return []
        if not numbers(series):
            missing = [
                name
                for name in metrics_of(expr)
                if not {name, f"{name}_bucket"} & self.known
            ]
            if where in RIGHTLY_EMPTY:
                self.empty += 1
                self.tell(where, f"empty, rightly: {RIGHTLY_EMPTY[where]}", ok=True)
            elif missing:
                self.tell(where, f"no data, for these metrics are not there: {', '.join(missing)}")
            else:
                self.tell(where, f"no data\n       {expr}")
        return series

    def variable(self, board: str, variable: dict[str, Any], variables: list[str]) -> None:
        if variable["type"] != "query":
            return
        where = (board, f"variable {variable['name']}", "values")
        query = variable["query"]["query"]
        found = re.fullmatch(r"label_values\((.*),\s*(\w+)\)", query, re.DOTALL)
        if not found:
            self.tell(where, f"not of the form label_values(metric, label): {query}")
            return
        self.queries += 1
        selector = filled_in(found[1], variables)
        if not self.prometheus.ask(f"label/{found[2]}/values", **{"match[]": selector}):
            self.tell(where, f"no values: {query}")

    def dashboard(self, path: pathlib.Path) -> list[tuple[dict[str, Any], list[Any]]]:
        """Runs what is on it: every panel with its series."""
        board = json.loads(path.read_text())
        variables = [v["name"] for v in board["templating"]["list"]]
        for variable in board["templating"]["list"]:
            self.variable(path.stem, variable, variables)
        for annotation in board["annotations"]["list"]:
            if "expr" in annotation:
                where = (path.stem, annotation["name"], "annotation")
                self.run(where, filled_in(annotation["expr"], variables), instant=False)
        drawn = []
        for panel in board["panels"]:
            found = []
            for target in panel.get("targets", []):
                where = (path.stem, panel["title"], target["refId"])
                expr = filled_in(target["expr"], variables)
                found.append((target, self.run(where, expr, target["instant"])))
            drawn.append((panel, found))
        return drawn


# --- Pictures -------------------------------------------------------------


def shown(value: float, unit: str) -> str:
    """A number as the panel's unit says it, roughly."""
    if unit == "percentunit":
        return f"{value * 100:.1f} %"
    if unit == "s":
        for limit, factor, name in [(1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7200, 1 / 60, "min")]:
            if abs(value) < limit:
                return f"{value * factor:.3g} {name}"
        return f"{value / 3600:.3g} h"
    if unit == "bytes":
        for limit, factor, name in [(1024, 1, "B"), (1024**2, 1024, "KiB"), (1024**3, 1024**2, "MiB")]:
            if abs(value) < limit:
                return f"{value / factor:.3g} {name}"
        return f"{value / 1024**3:.3g} GiB"
    return f"{value:.4g}" + {"reqps": " /s", "hertz": " /s"}.get(unit, "")


def draw(board: str, panels: list[tuple[dict[str, Any], list[Any]]], check: Check, out: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from datetime import datetime

    from matplotlib import dates, pyplot
    from matplotlib.ticker import FuncFormatter

    def clock(seconds: float) -> float:
        return float(dates.date2num(datetime.fromtimestamp(seconds)))

    bottom = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p, _ in panels)
    width, row = 20.0, 0.42  # inches: of all 24 columns, and of one row
    figure = pyplot.figure(figsize=(width, bottom * row), facecolor="white")

    def box(panel: dict[str, Any]) -> tuple[float, float, float, float]:
        g = panel["gridPos"]
        return g["x"] / 24, 1 - (g["y"] + g["h"]) / bottom, g["w"] / 24, g["h"] / bottom

    for panel, found in panels:
        x, y, w, h = box(panel)
        if panel["type"] == "row":
            figure.text(x + 0.004, y + h / 2, panel["title"], fontsize=13, weight="bold", va="center")
            continue
        unit = panel["fieldConfig"]["defaults"].get("unit", "short")
        figure.add_artist(
            pyplot.Rectangle((x + 0.002, y + 0.001), w - 0.004, h - 0.002, fill=False, color="0.8", transform=figure.transFigure)
        )
        top = 0.5 * row / (bottom * row)
        figure.text(x + 0.006, y + h - top, panel["title"], fontsize=9, va="center")
        lines = [(label(t, s["metric"]), s["values"]) for t, series in found for s in series if numbers([s])]
        if panel["type"] == "stat":
            names = panel["options"]["textMode"] == "name"
            text = ", ".join(n for n, _ in lines) if names else ", ".join(shown(float(v[-1][1]), unit) for _, v in lines)
            figure.text(x + w / 2, y + h / 2.3, text or "no data", fontsize=16, ha="center", va="center", color="black" if text else "red")
            continue
        if panel["type"] == "table":
            rows: dict[str, list[str]] = {}
            named = panel["transformations"][-1]["options"]["renameByName"]
            head = ["job", "workload", "accelerator", "model", *(named[f"Value #{t['refId']}"] for t, _ in found)]
            for target, series in found:
                for s in series:
                    key = s["metric"].get("job", "")
                    if target is found[0][0]:
                        rows[key] = [s["metric"].get(n, "") for n in head[:4]]
                    if key in rows:
                        rows[key].append(f"{float(s['values'][0][1]):.4g}")
            axes = figure.add_axes((x + 0.01, y + 0.004, w - 0.02, h - 2 * top))
            axes.axis("off")
            if rows:
                cells = [r + [""] * (len(head) - len(r)) for r in rows.values()]
                axes.table(cellText=cells, colLabels=head, loc="upper center", cellLoc="left").set_fontsize(8)
            continue
        axes = figure.add_axes((x + 0.035, y + 0.035 * 20 * 0.42 / (bottom * row) + 0.004, w - 0.042, h - 2.2 * top - 0.01))
        rows_of_states = panel["type"] == "state-timeline"
        for place, (name, values) in enumerate(lines[:12]):
            points = [(float(t), float(v)) for t, v in values if math.isfinite(float(v))]
            style = "--" if "predicted" in name else "-"
            heights = [place if rows_of_states else v for _, v in points]
            axes.plot([clock(t) for t, _ in points], heights, style, lw=8 if rows_of_states else 1.2, label=name or panel["title"])
        axes.set_xlim(clock(check.start), clock(check.end))
        axes.xaxis_date()
        axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S" if check.end - check.start < 1800 else "%H:%M"))
        axes.xaxis.set_major_locator(dates.AutoDateLocator(maxticks=5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _, unit=unit: shown(v, unit)))
        if rows_of_states:
            axes.set_yticks(range(len(lines[:12])), [name for name, _ in lines[:12]])
            axes.margins(y=0.3)
        axes.tick_params(labelsize=7)
        axes.grid(color="0.92")
        if "min" in panel["fieldConfig"]["defaults"]:
            axes.set_ylim(bottom=panel["fieldConfig"]["defaults"]["min"])
        if lines and not rows_of_states:
            axes.legend(fontsize=7, loc="best", framealpha=0.7)
        elif not lines:
            axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color="red")
    figure.savefig(out / f"{board}.png", dpi=90)
    pyplot.close(figure)
    print(f"drawn: {out / f'{board}.png'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prometheus", help="its address, such as http://127.0.0.1:9090")
    parser.add_argument("--minutes", type=float, default=10, help="how far back to look (default 10)")
    parser.add_argument("--png", type=pathlib.Path, metavar="DIR", help="draw the dashboards into this folder")
    arguments = parser.parse_args()
    check = Check(Prometheus(arguments.prometheus), arguments.minutes)
    for path in sorted(FILES.glob("*.json")):
        panels = check.dashboard(path)
        if arguments.png:
            arguments.png.mkdir(parents=True, exist_ok=True)
            draw(path.stem, panels, check, arguments.png)
    good = check.queries - check.failed - check.empty
    print(f"{check.queries} queries: {good} with data, {check.empty} rightly empty, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
