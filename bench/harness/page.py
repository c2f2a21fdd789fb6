"""A result of `bench/compare` as one page that needs nothing else: what was measured, bars of the ratios, claims, peers, method.

It is not written with `HtmlPage` of varve-tool-plan, as pages of `varve report` are: that would take a program that reads this harness'
results, which `bench/compare` would have to build before it could show any; and comparisons with others, with bars in their rows and cells of
two lines, are nothing that a `Document` has."""

from html import escape
from math import log10

from . import report

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --line: #dde2ea; --paper: #fff; --card: #f7f9fc; --good: #1a7f4b; --bad: #b3372f; --own: #e3eefc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa5b5; --line: #343c49; --paper: #14181f; --card: #1b212b; --good: #4cc38a; --bad: #f2857c; --own: #1f3350; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 66rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .2rem; } h3 { font-size: 1rem; margin: 0 0 .5rem; }
p { margin: .3rem 0 .8rem; } .soft, small { color: var(--soft); } small { display: block; font-size: .78rem; }
section.row { border: 1px solid var(--line); border-radius: 8px; padding: .8rem .9rem; margin: .8rem 0; background: var(--card); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: .78rem; }
th, td { padding: .28rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; } tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; white-space: nowrap; } tr.own td { background: var(--own); font-weight: 600; } tr.own small { font-weight: 400; }
.narrow { display: none; } th.axis { text-align: center; white-space: nowrap; } td.state { white-space: nowrap; } td.bar { width: 22%; min-width: 6rem; } td.bar svg { display: block; width: 100%; height: 1.25rem; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; } .none { color: var(--soft); }
rect.track { fill: var(--line); opacity: .5; } rect.good { fill: var(--good); } rect.bad { fill: var(--bad); } line { stroke: var(--soft); stroke-width: .5; vector-effect: non-scaling-stroke; }
textarea { width: 100%; height: 16rem; font: 12px/1.4 ui-monospace, monospace; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .6rem; }
button { font: inherit; padding: .3rem .8rem; margin: .4rem 0; }
@media (max-width: 40rem) { body { padding: 1rem .6rem 3rem; } .wide { display: none; } .narrow { display: block; } th.axis { font-size: 0; } td.state { white-space: normal; } section.row { padding: .6rem .5rem; } th, td { padding: .25rem .3rem; } td.bar { min-width: 4rem; } }
"""
BAR_DECADES = 2  # A bar's ends are 0.01× and 100×.
METHOD = (
    "Each row is measured on each peer in turn; who is first changes from round to round. A figure is the median of the rounds, with the least and the "
    "most in brackets. A ratio above 1× says that Varve is better: more operations, or less time.",
    "Volumes on one disk have one size and are filled with incompressible data before; Varve and Ceph have read caches of a quarter of it, the raw file and "
    "qemu-nbd none, nbdkit the page cache of the machine. Those on Ceph have a quarter of that size. OSDs lie in files that were written in full before.",
    "Each sample follows a short warm-up and a quiet server. Server CPU is user and system time of all of the peer's server processes (with Ceph: monitor, manager and "
    "every OSD), all CPU has the client's beside. librbd works in the client. A raw file has no server: the kernel's share shows in the JSON only.",
    "disk B/B are bytes written to the whole disk for a byte of the client, until the server is quiet and the page cache is written: copies, parity, logs and "
    "metadata included. On Ceph all copies lie on the same disk.",
    "rados bench writes whole new objects, which is the most that the cluster gives; no volume can do with it. It tells no percentiles.",
    "Peers run as they come, but for what their line below says. Client and servers share the machine's cores, so that a cheap server leaves more to the client.",
)


def page(result):
    """The page."""
    facts = result["facts"]
    parts = [_head("Varve beside others"), "<h1>Varve beside others</h1>", f"<p>{escape(report.source(result))}</p>", _summary(result),
             '<p class="soft narrow">A wider screen shows latency, CPU and bytes to the disk as well.</p>']
    if facts["rounds"] < 3:
        parts.append(f'<p class="bad">Few rounds ({facts["rounds"]} of {facts["seconds"]:g} s) say little about speed.</p>')
    for mine, title, what, rows in report.stages(result):
        parts += [f"<h2>{escape(title)}</h2>", f'<p class="soft">{escape(what[0].upper() + what[1:])}.</p>']
        parts += [_row(result, row, mine) for row in rows]
    parts += ["<h2>Claims</h2>", _claims(result), "<h2>Peers</h2>", _peers(result), "<h2>How it was measured</h2>", "<ul>"]
    parts += [f"<li>{escape(text)}</li>" for text in METHOD]
    parts += ["</ul>", "<h2>The machine</h2>", _facts(facts), "<h2>As Markdown</h2>",
              "<button onclick=\"const t=document.getElementById('markdown');t.select();navigator.clipboard?navigator.clipboard.writeText(t.value):document.execCommand('copy')\">Copy</button>",
              f'<textarea id="markdown" readonly aria-label="All tables as Markdown">{escape(report.markdown(result))}</textarea>', "</body></html>"]
    return "\n".join(parts) + "\n"


def _head(title):
    return ('<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>")


def _summary(result):
    found = report.verdicts(result)
    count = {holds: sum(one["holds"] is holds for one in found) for holds in (True, False, None)}
    absent = [about["title"] for about in result["peers"].values() if "absent" in about]
    text = f'<p><span class="good">{count[True]} claims hold</span>, <span class="{"bad" if count[False] else "none"}">{count[False]} do not</span>'
    text += f", {count[None]} not measured."
    if absent:
        text += f' <span class="bad">Absent or failed: {escape(", ".join(absent))}</span> (see Peers).'
    return text + "</p>"


def _row(result, row, mine):
    metric = row["metric"]
    sides = [side for side in report.SIDE_METRICS if side != metric and any(side in values for values in row["samples"].values())]
    head = [f'<th>peer</th><th class="n">{report.METRICS[metric][0]}</th>']
    head += [f'<th class="n wide">{report.METRICS[side][0]}</th>' for side in sides]
    head.append('<th class="n">Varve is</th><th class="axis">0.01× – 1× – 100×</th>')
    lines = []
    for peer, values in row["samples"].items():
        about = result["peers"][peer]
        durable = "" if about["syncs"] or "write" not in row.get("rw", "") and not row["name"].startswith("put") else "<small>not durable</small>"
        spread = f"<small>{_spread(values[metric], metric)}</small>" if len(values[metric]) > 1 else ""
        cells = [f"<td>{escape(about['title'])}{durable}</td><td class=\"n\">{report.figure(row, peer, metric)}{spread}</td>"]
        cells += [f'<td class="n wide">{report.figure(row, peer, side)}</td>' for side in sides]
        ratio = report.ratio(row, peer)
        cells.append(f'<td class="n {_tone(ratio)}">{report.times(ratio)}</td><td class="bar">{_bar(ratio)}</td>' if ratio else "<td></td><td></td>")
        lines.append(f'<tr{" class=own" if peer == mine else ""}>{"".join(cells)}</tr>')
    for peer, reasons in row.get("failed", {}).items():
        text = f"{report.rounds_failed(row, peer)}: {reasons[0]}"
        lines.append(f'<tr><td>{escape(result["peers"][peer]["title"])}</td><td class="bad" colspan="{len(head) - 1}">{escape(text)}</td></tr>')
    if not lines:
        lines = ["<tr><td>not measured</td></tr>"]
    claims = [one for one in report.verdicts({**result, "rows": [row]})]
    said = "".join(f'<p class="{_state(one)}">{escape(one["claim"])}: {report.word(one)}, {report.value(one)}</p>' for one in claims)
    return (f'<section class="row"><h3>{escape(row["title"])}</h3><div class="scroll"><table><thead><tr>{"".join(head)}</tr></thead>'
            f'<tbody>{"".join(lines)}</tbody></table></div>{said}</section>')


def _spread(values, metric):
    form = report.METRICS[metric][1]
    return f"{form.format(min(values))}–{form.format(max(values))}"


def _tone(ratio):
    return "good" if ratio >= 1 else "bad"


def _bar(ratio):
    """From 1× in the middle to the right where Varve is better, to the left where it is not; equal steps are equal factors."""
    reach = max(-1.0, min(1.0, log10(ratio) / BAR_DECADES)) * 50
    left, width = (50, reach) if reach >= 0 else (50 + reach, -reach)
    return (f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{report.times(ratio)}">'
            '<rect class="track" x="0" y="2" width="100" height="6"/>'
            f'<rect class="{_tone(ratio)}" x="{left:.2f}" y="2" width="{max(width, .4):.2f}" height="6"/><line x1="50" x2="50" y1="0" y2="10"/></svg>')


def _state(verdict):
    return {True: "good", False: "bad", None: "none"}[verdict["holds"]]


def _claims(result):
    lines = [f'<tr><td>{escape(one["title"])}</td><td>{escape(one["claim"])}</td><td class="n">{report.value(one)}</td>'
             f'<td class="state {_state(one)}">{report.word(one)}</td></tr>' for one in report.verdicts(result)]
    return ('<div class="scroll"><table><thead><tr><th>row</th><th>claim</th><th class="n">measured</th><th></th></tr></thead>'
            f'<tbody>{"".join(lines)}</tbody></table></div>')


def _peers(result):
    lines = []
    for about in result["peers"].values():
        version = escape(about.get("version", ""))
        if "absent" in about:
            version += f'<div class="bad">absent: {escape(about["absent"])}</div>'
        lines.append(f"<tr><td>{escape(about['title'])}</td><td>{version}</td><td>{escape(about['durability'])}</td></tr>")
    return ('<div class="scroll"><table><thead><tr><th>peer</th><th>version</th><th>is an answered write durable?</th></tr></thead>'
            f'<tbody>{"".join(lines)}</tbody></table></div>')


def _facts(facts):
    names = {"machine": "machine", "cpu": "processor", "cores": "cores", "memory_mib": "memory, MiB", "kernel": "Linux", "disk": "disk", "disk_scheduler": "its scheduler",
             "file_system": "file system", "load_before": "load before", "commit": "commit", "date": "date", "rounds": "rounds", "seconds": "seconds a sample",
             "volume_gib": "volumes, GiB", "minutes": "minutes in all"}
    lines = [f"<tr><td>{text}</td><td>{escape(str(facts[name]))}</td></tr>" for name, text in names.items()]
    return f'<div class="scroll"><table><tbody>{"".join(lines)}</tbody></table></div>'
