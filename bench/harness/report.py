"""Turns samples into medians, ratios, the verdicts on the claims, and tables of Markdown.

A result is what `bench/compare` keeps: facts, peers, and rows with the values of each metric by round. A ratio above 1 says that Varve is better:
faster, sooner, cheaper. Nothing here measures.
"""

from statistics import median

STAGES = {
    # name: Varve's peer, title, what is compared
    "disk": ("varve", "Block, one disk, one copy", "NBD over a unix socket; the same file system below all"),
    "protected": ("varve-ec-4+2", "Block, with redundancy", "NBD over a unix socket; all files and OSDs on one disk"),
    "rados": ("varve-rados", "Block, on Ceph", "the same six OSDs below all, on one disk"),
    "objects": ("varve-s3", "Objects", "S3, 32 connections, plain HTTP, one disk, one copy"),
    "rados-objects": ("varve-rados-s3", "Objects, on Ceph", "S3, 32 connections, plain HTTP; a cluster of six OSDs on one disk for each server"),
    "fill": ("varve", "Full pools", "steady state, Varve alone"),
    "scale": ("varve", "Scale", "beside what S4 published of other machines"),
}
METRICS = {
    # metric: heading, format, whether less is better
    "rate": ("operations/s", "{:,.0f}", False),
    "mib_s": ("MiB/s", "{:,.0f}", False),
    "mean_us": ("mean µs", "{:,.0f}", True),
    "p50_us": ("p50 µs", "{:,.0f}", True),
    "p99_us": ("p99 µs", "{:,.0f}", True),
    "p999_us": ("p99.9 µs", "{:,.0f}", True),
    "server_cpu_us": ("server CPU µs/op", "{:,.1f}", True),
    "cpu_us": ("all CPU µs/op", "{:,.1f}", True),
    "write_amplification": ("disk B/B", "{:,.2f}", True),
    "seconds": ("s", "{:,.1f}", True),
}
SIDE_METRICS = ("p50_us", "p99_us", "server_cpu_us", "cpu_us", "write_amplification")


def own(row):
    """The peer of a row that is Varve."""
    return STAGES[row["stage"]][0]


def middle(row, peer, metric):
    """The median of a peer's rounds; none if it was not measured."""
    values = row["samples"].get(peer, {}).get(metric)
    return median(values) if values else None


def figure(row, peer, metric, has_spread=False):
    """The median as text, with the least and the most if asked for."""
    value = middle(row, peer, metric)
    if value is None:
        return "–"
    form = METRICS[metric][1]
    values = row["samples"][peer][metric]
    spread = f" ({form.format(min(values))}–{form.format(max(values))})" if has_spread and len(values) > 1 else ""
    return form.format(value) + spread


def failures(row, peer):
    """Why rounds of a peer failed; a result from before these were kept has none."""
    return row.get("failed", {}).get(peer, [])


def rounds_failed(row, peer):
    """How many rounds of a peer failed, as text; nothing if none did."""
    count = len(failures(row, peer))
    return f"{count} {'round' if count == 1 else 'rounds'} failed" if count else ""


def failed_behind(row, peer):
    """The same behind a figure."""
    text = rounds_failed(row, peer)
    return f" ({text})" if text else ""


def ratio(row, peer):
    """How many times Varve is as good as a peer; none if one of them was not measured."""
    metric = row["metric"]
    mine, other = middle(row, own(row), metric), middle(row, peer, metric)
    if not mine or not other or peer == own(row):
        return None
    return other / mine if METRICS[metric][2] else mine / other


def times(value):
    """A ratio as text."""
    return "–" if value is None else f"{value:.3g}×" if value < 100 else f"{value:,.0f}×"


def verdicts(result):
    """Each claim of each row: what it says, the value, and whether it holds; `holds` is none where it was not measured."""
    found = []
    for row in result["rows"]:
        for claim in row["claim"]:
            value, versus = _value(result, row, claim)
            bound = f"at least {claim['at_least']:g}" if "at_least" in claim else f"at most {claim['at_most']:g}"
            what = METRICS[claim["metric"]][0]
            text = f"{bound} times {_title(result, versus)} ({what})" if versus else f"{what} {bound}"
            text = f"{_title(result, claim['of'])}: {text}" if "of" in claim else text
            holds = None if value is None else value >= claim["at_least"] if "at_least" in claim else value <= claim["at_most"]
            reasons = failures(row, claim.get("of", own(row)))
            if reasons:
                holds = False
                text += f"; {len(reasons)} of its rounds failed: {reasons[0]}"
            found.append({"row": row["name"], "title": f"{STAGES[row['stage']][1]}: {row['title']}", "claim": text, "value": value, "holds": holds})
    return found


def _title(result, versus):
    if versus in result["peers"]:
        return result["peers"][versus]["title"]
    rows = {row["name"]: f"its own {row['title']}" for row in result["rows"]}
    return {"syncs": "the best durable peer", "any": "the best peer", **rows}.get(versus, versus)


def _value(result, row, claim):
    """The value of a claim, and what it is over, none if it is Varve's figure itself."""
    metric, versus = claim["metric"], claim.get("versus")
    mine = middle(row, claim.get("of", own(row)), metric)
    if mine is None or versus is None:
        return mine, versus
    peers = {name: middle(row, name, metric) for name in row["samples"] if name != own(row)}
    if versus in ("any", "syncs"):
        others = {name: value for name, value in peers.items() if versus == "any" or result["peers"][name]["syncs"]}
    else:
        rows = {other["name"]: middle(other, own(other), metric) for other in result["rows"]}
        others = {versus: {**rows, **peers}.get(versus)}
    others = {name: value for name, value in others.items() if value}
    if not others:
        return None, versus
    best = min(others, key=others.get) if METRICS[metric][2] else max(others, key=others.get)
    return mine / others[best], best


def stages(result):
    """Titles and rows of the stages that were measured."""
    for name, (mine, title, what) in STAGES.items():
        rows = [row for row in result["rows"] if row["stage"] == name]
        if rows:
            yield mine, title, what, rows


def markdown(result):
    """Everything as tables of Markdown."""
    lines = [source(result), ""]
    for _, title, what, rows in stages(result):
        lines += [f"## {title}", "", f"{what[0].upper()}{what[1:]}.", ""]
        for row in rows:
            heads = [row["metric"], *(metric for metric in SIDE_METRICS if metric != row["metric"])]
            heads = [metric for metric in heads if any(metric in values for values in row["samples"].values())]
            lines += [f"### {row['title']}", "", _line(["", "durable", *(METRICS[metric][0] for metric in heads), "Varve is"])]
            lines.append(_line(["---", "---", *["---:"] * (len(heads) + 1)]))
            for peer in row["samples"]:
                about = result["peers"][peer]
                cells = [figure(row, peer, metric, has_spread=metric == row["metric"]) for metric in heads]
                cells[0] += failed_behind(row, peer)
                lines.append(_line([about["title"], "yes" if about["syncs"] else "no", *cells, times(ratio(row, peer))]))
            lines.append("")
    lines += ["## Claims", "", _line(["row", "claim", "measured", ""]), _line(["---", "---", "---:", "---"])]
    lines += [_line([one["title"], one["claim"], value(one), word(one)]) for one in verdicts(result)]
    lines += ["", "## Peers", "", _line(["peer", "version", "is an answered write durable?"]), _line(["---"] * 3)]
    lines += [_line([about["title"], about.get("version") or f"absent: {about['absent']}", about["durability"]]) for about in result["peers"].values()]
    return "\n".join(lines) + "\n"


def word(verdict):
    """What became of a claim."""
    return {True: "holds", False: "does not hold", None: "not measured"}[verdict["holds"]]


def value(verdict):
    """What was measured for a claim, as text."""
    return "–" if verdict["value"] is None else f"{verdict['value']:,.3g}" if verdict["value"] < 1000 else f"{verdict['value']:,.0f}"


def source(result):
    """One sentence on what was measured where."""
    facts = result["facts"]
    return (f"{facts['machine']} ({facts['memory_mib'] / 1024:.0f} GiB, {facts['file_system']} on one virtual disk), "
            f"commit {facts['commit']}, {facts['date']}: medians of {facts['rounds']} rounds of {facts['seconds']:g} s, in turns.")


def readme(name, result):
    """The section of the README: each figure in it is one of the result."""
    lines = [f"`make compare` measures Varve beside others on one machine. {source(result)}", "",
             "Each cell is Varve's speed relative to that system: 2× means Varve is twice as fast, less than 1× that it is slower. "
             "\\* acknowledges writes that", "a power failure can still lose; Varve and all others do not.", ""]
    for mine, title, what, rows in stages(result):
        peers = [name for name in result["peers"] if name != mine and any(ratio(row, name) for row in rows)]
        if not peers:
            continue
        heads = [result["peers"][peer]["title"] + ("" if result["peers"][peer]["syncs"] else " \\*") for peer in peers]
        lines += [_line([title, "Varve", *heads]), _line(["---", *["---:"] * (len(heads) + 1)])]
        for row in rows:
            mine_text = f"{figure(row, mine, row['metric'])} {METRICS[row['metric']][0].split()[-1]}{failed_behind(row, mine)}"
            lines.append(_line([row["title"], mine_text, *(times(ratio(row, peer)) for peer in peers)]))
        lines.append("")
    found = verdicts(result)
    lost = [one for one in found if one["holds"] is False]
    held = sum(one["holds"] is True for one in found)
    lines.append(f"Of {len(found)} claims {held} hold, {len(lost)} do not hold, "
                 f"{len(found) - held - len(lost)} not measured{': see' if lost else '; see'} [the figures](bench/results/{name}) and "
                 f"[how they are taken](docs/operating/comparing.md).")
    return "\n".join(lines) + "\n"


def _line(cells):
    return "| " + " | ".join(cells) + " |"
