"""Turns samples of S3 into the printed table and the verdicts on the goals. Figures are medians of the rounds, with min–max."""

from .report import summarise

POINTS = ("put-4k", "get-4k", "put-128k", "get-128k", "put-10m", "get-10m")
DISK_POINTS = ("disk-get-4k", "disk-get-128k", "disk-get-10m")  # Varve without a data cache, beside the raw disk.
COLUMNS = (
    # title, metric, format, spread shown
    ("requests/s", "rate", "{:,.0f}", True),
    ("MiB/s", "mib_s", "{:,.0f}", False),
    ("p50 ms", "p50_us", "{:,.2f}", False),
    ("p99 ms", "p99_us", "{:,.1f}", True),
    ("server CPU µs", "server_cpu_us", "{:,.0f}", True),
    ("client", "client_cpu_us", "{:,.0f}", False),
    ("cores", "busy_cores", "{:.1f}", False),
    ("flushes", "flushes_per_request", "{:.2f}", False),
    ("disk B/B", "disk_bytes_per_byte", "{:.2f}", False),
    ("errors", "errors", "{:.0f}", False),
)
# Varve's rate at a point, over that of the best of a kind of other servers, or of one server, or of Varve at another point.
GOALS = (
    ("put-4k", "syncs", 5.0), ("put-4k", "syncs not", 1.5), ("put-4k", "rgw", 8.0),
    ("put-128k", "syncs", 2.0), ("put-128k", "syncs not", 1.2),
    ("put-10m", "any", 1.2),
    ("get-4k", "any", 1.5), ("get-128k", "any", 1.2), ("get-10m", "any", 0.7),
    ("put-4k", "its get-4k", 0.5),
)


def table(results, servers):
    """Lines of the table, one per point and server."""
    rows = [["point", "server", "syncs", *(title for title, *_ in COLUMNS)]]
    for point in POINTS + DISK_POINTS:
        for name, samples in results.get(point, {}).items():
            summary = summarise(samples)
            syncs = "-" if point in DISK_POINTS else "yes" if servers[name]["syncs"] else "no"
            rows.append([point, name, syncs, *(_cell(summary.get(metric), metric, form, spread) for _, metric, form, spread in COLUMNS)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) if column < 3 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def goals(results, servers):
    """One verdict a goal: met, missed, or not measured."""
    verdicts = []
    for point, versus, at_least in GOALS:
        verdict = {"goal": f"{point} ÷ {versus} ≥ {at_least}", "verdict": "not measured"}
        rates = {name: summarise(samples)["rate"]["median"] for name, samples in results.get(point, {}).items()}
        other = _other(results, servers, rates, versus)
        if "varve" in rates and other:
            name, rate = other
            value = rates["varve"] / rate
            verdict = {"goal": f"{point} ÷ {name} ≥ {at_least}", "value": value, "verdict": "met" if value >= at_least else "missed"}
        verdicts.append(verdict)
    return verdicts


def _other(results, servers, rates, versus):
    """Name and rate of what is compared with; none if it was not measured."""
    if versus.startswith("its "):
        samples = results.get(versus.removeprefix("its "), {}).get("varve")
        return (versus, summarise(samples)["rate"]["median"]) if samples else None
    wanted = {"syncs": lambda name: servers[name]["syncs"], "syncs not": lambda name: not servers[name]["syncs"], "any": lambda name: True}
    fits = wanted.get(versus, lambda name: name == versus)
    others = {name: rate for name, rate in rates.items() if name != "varve" and fits(name)}
    if not others:
        return None
    best = max(others, key=others.get)
    return f"{versus} ({best})" if versus != best else best, others[best]


def _cell(entry, metric, form, spread):
    if entry is None:
        return "-"
    scale = 1000 if metric in ("p50_us", "p99_us") else 1
    text = form.format(entry["median"] / scale)
    if spread and entry["min"] != entry["max"]:
        text += f" ({form.format(entry['min'] / scale)}–{form.format(entry['max'] / scale)})"
    return text
