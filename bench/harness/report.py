"""Turns samples into the printed table and the verdicts on each point's goals.

Every figure is the median of the rounds; the spread is min–max.
"""

from statistics import median

COLUMNS = (
    # title, metric, format, spread shown
    ("IOPS", "iops", "{:,.0f}", True),
    ("MiB/s", "mib_s", "{:,.0f}", False),
    ("p50 µs", "p50_us", "{:,.0f}", False),
    ("p99 µs", "p99_us", "{:,.0f}", False),
    ("p99.9 µs", "p999_us", "{:,.0f}", True),
    ("CPU µs/IO", "cpu_us", "{:.1f}", True),
    ("server", "server_cpu_us", "{:.1f}", False),
    ("disk B/B", "write_amplification", "{:.2f}", True),
    ("server B/B", "server_write_amplification", "{:.2f}", False),
)


def summarise(samples):
    """Median, min and max of each numeric metric over `samples`."""
    summary = {}
    for name in samples[0]:
        values = [s[name] for s in samples if isinstance(s.get(name), (int, float))]
        if values:
            summary[name] = {"median": median(values), "min": min(values), "max": max(values)}
    return summary


def table(points, results):
    """Lines of the table: one per point and target, ratios to raw and rbd last."""
    header = ["point", "target", *(title for title, *_ in COLUMNS), "x rbd", "x raw"]
    rows = [header]
    for point in points:
        by_target = results.get(point["name"], {})
        for target, samples in by_target.items():
            summary = summarise(samples)
            cells = [_cell(summary.get(metric), form, spread) for _, metric, form, spread in COLUMNS]
            ratios = [_ratio(summary, by_target.get(other), "iops") for other in ("rbd", "raw")]
            rows.append([point["title"], target, *cells, *ratios])
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return ["  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def goals(points, results):
    """One verdict a goal: met, missed, or not measured."""
    verdicts = []
    for point in points:
        by_target = results.get(point["name"], {})
        for goal in point.get("goal", []):
            verdicts.append(_judge(point, goal, by_target))
    return verdicts


def _judge(point, goal, by_target):
    text = f"{point['title']}: {goal['metric']}"
    if "versus" in goal:
        text += f" ÷ {goal['versus']}"
    text += f" ≥ {goal['at_least']}" if "at_least" in goal else f" ≤ {goal['at_most']}"
    value = _value(goal, by_target)
    if value is None:
        return {"goal": text, "verdict": "not measured"}
    met = value >= goal["at_least"] if "at_least" in goal else value <= goal["at_most"]
    return {"goal": text, "value": value, "verdict": "met" if met else "missed"}


def _value(goal, by_target):
    metric, versus = goal["metric"], goal.get("versus")
    if "varve" not in by_target or (versus and versus not in by_target):
        return None
    own = summarise(by_target["varve"])
    if metric not in own:
        return None
    if not versus:
        return own[metric]["median"]
    other = summarise(by_target[versus])
    return own[metric]["median"] / other[metric]["median"] if metric in other else None


def _cell(entry, form, spread):
    if entry is None:
        return "-"
    text = form.format(entry["median"])
    if spread and entry["min"] != entry["max"]:
        text += f" ({form.format(entry['min'])}–{form.format(entry['max'])})"
    return text


def _ratio(summary, other_samples, metric):
    if not other_samples:
        return "-"
    other = summarise(other_samples)[metric]["median"]
    return f"{summary[metric]['median'] / other:.2f}" if other else "-"
