"""Draws a dashboard from its own queries, with matplotlib: not Grafana's picture, but the same panels and figures."""

import math
import re

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter


def formatted(unit):
    def text(value, _=None):
        if unit == "percentunit":
            return f"{value * 100:.3g} %"
        if unit == "s":
            return f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
        if unit == "bytes":
            return f"{value / (1 << 20):.0f} MiB"
        return f"{value / 1000:.3g} k" if abs(value) >= 1000 else f"{value:.3g}"

    return text


def legend(template, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), template)


def draw(prometheus, panels, filled, start, end, path):
    """Two panels side by side; those of a single figure are drawn as text."""
    rows = math.ceil(len(panels) / 4)
    figure, axes = pyplot.subplots(rows, 4, figsize=(26, 3.3 * rows), layout="constrained")
    for axis in axes.flat[len(panels):]:
        axis.set_axis_off()
    for panel, axis in zip(panels, axes.flat):
        unit = formatted(panel["fieldConfig"]["defaults"]["unit"])
        axis.set_title(panel["title"], fontsize=11, loc="left")
        drawn, names = [], []
        for target in panel["targets"]:
            for series in prometheus.ask("query_range", query=filled(target["expr"]), start=start, end=end, step=1)["result"]:
                points = {round(at - start): float(value) for at, value in series["values"]}
                drawn.append([points.get(second, math.nan) for second in range(int(end - start))])
                names.append(legend(target["legendFormat"], series["metric"]))
        if panel["type"] == "stat":
            last = next((v for line in drawn for v in reversed(line) if math.isfinite(v)), math.nan)
            axis.text(0.5, 0.5, unit(last), ha="center", va="center", fontsize=30, transform=axis.transAxes)
            axis.set_axis_off()
            axis.set_title(panel["title"], fontsize=11, loc="left")
            continue
        if panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal" and drawn:
            axis.stackplot(range(len(drawn[0])), [[0 if math.isnan(v) else v for v in line] for line in drawn], labels=names, alpha=0.7)
        else:
            for line, name in zip(drawn, names):
                axis.plot(line, label=name, linewidth=1.5)
            axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
        axis.yaxis.set_major_formatter(FuncFormatter(unit))
        axis.grid(alpha=0.3)
        if any(names):
            axis.legend(fontsize=7, loc="upper left")
    figure.savefig(path, dpi=55)
    pyplot.close(figure)
