"""What a result of the matrix says: faults of a scene, a word for each cell, and the page."""

SCENES = {
    "pull-1": ("Pull 1", "one drive is pulled while the system serves; everything is read, overwritten and read again"),
    "pull-m": ("Pull m", "as many drives are pulled as the system is to survive, one after the other; the same"),
    "pull-m+1": ("Pull m + 1", "one more is pulled: errors are right now, wrong bytes are not; all come back, and everything has to be there"),
    "pull-during-writes": ("Pull during writes", "one is pulled while items are written"),
    "stale": ("Return stale", "one is pulled, everything is overwritten, it comes back; once the system calls itself well, m others are taken away"),
    "stale-alone": ("Stale half alone", "m are pulled, everything is overwritten; then m others are taken away, and those that missed it come back: what is "
                    "there is too little, and must not be served as it was before"),
    "replace-degraded": ("Replace while degraded", "one is pulled, everything is overwritten without it, it is replaced by an empty one under writes; once the "
                         "system calls itself well, m others are taken away"),
    "second-loss": ("Second loss during rebuild", "one is replaced, and another one is pulled while it is rebuilt"),
    "kill-in-rebuild": ("`kill -9` in rebuild", "one is replaced, and everything is killed while it is rebuilt; once the system calls itself well, m others are "
                        "taken away"),
    "flipped-bits": ("10,000 flipped bits", "10,000 bits of what one drive has stored are flipped; everything is read, then scrubbed; once the system calls "
                     "itself well, m others are taken away"),
    "slow-drive": ("One slow drive", "one drive does 25 operations a second: p99 of 64 KiB, before and then"),
    "full-degraded": ("Full while degraded", "one is pulled, and items are written until they are refused; everything is read, half is deleted, and writes have to "
                      "go through again"),
}
# With more drives gone than it is to survive, and with stale ones alone, a system is right to refuse.
ERRORS_ARE_RIGHT = ("pull-m+1", "stale-alone")


def lost(tally):
    """Items of a tally that were acknowledged and do not read right."""
    return tally["error"] + tally["missing"] + tally["old"] + tally["wrong"]


def faults(name, found):
    """What was not to happen in a scene, in words; nothing if all is well."""
    said = []
    if "broke" in found:
        said.append(f"it broke: {found['broke']}")
    for when, tally in found["during"].items():
        wrong = tally["old"] + tally["wrong"] + tally["missing"]
        if wrong:
            said.append(f"{when}: {describe(tally)}")
        elif tally["error"] and name not in ERRORS_ARE_RIGHT and not is_second_of_one(name, found):
            said.append(f"{when}: {tally['error']} errors: {'; '.join(tally.get('examples', []))}")
    if found["end"] and lost(found["end"]):
        said.append(f"at the end: {describe(found['end'])}")
    if not found["end"] and "inapplicable" not in found and "broke" not in found:
        said.append("it did not come to the end: " + "; ".join(found["notes"]))
    if found["false_ok"]:
        said.append(f"it called itself well {', '.join(found['false_ok'])}")
    said += [note for note in found["notes"] if "in time" in note or "refuses writes" in note]
    return said


def is_second_of_one(name, found):
    """Whether a system that survives one loss had two."""
    return name == "second-loss" and "survives one" in " ".join(found["notes"])


def describe(tally):
    """A tally in words."""
    words = [f"{tally[kind]} {text}" for kind, text in (("missing", "missing"), ("old", "old"), ("wrong", "wrong"), ("error", "unreadable")) if tally[kind]]
    examples = f" ({'; '.join(tally['examples'])})" if tally.get("examples") else ""
    return f"{', '.join(words) or 'all right'} of {sum(tally[kind] for kind in ('right', 'error', 'missing', 'old', 'wrong'))}{examples}"


def outcome(found, is_full=False):
    """A scene in a few words."""
    if "inapplicable" in found:
        return "–"
    if "broke" in found:
        return f"broke: {found['broke'][:300]}" if is_full else "broke"
    words = []
    end = found["end"]
    if end is None:
        words.append("does not come back")
    elif lost(end):
        words.append(f"**loses {lost(end)}** of {lost(end) + end['right']}")
    served = {kind: max((tally[kind] for tally in found["during"].values()), default=0) for kind in ("old", "wrong", "missing", "error")}
    for kind, text in (("old", "reads old data"), ("wrong", "reads wrong data"), ("missing", "says that items are missing")):
        if served[kind]:
            words.append(f"**{text}** ({served[kind]})")
    if served["error"]:
        words.append(f"{served['error']} errors meanwhile")
    if found["false_ok"]:
        words.append("**false ok**")
    figures = found["figures"]
    if "put_p99_ms" in figures:
        words.append(f"put {figures['put_p99_ms'][0]:g} → {figures['put_p99_ms'][1]:g} ms, get {figures['get_p99_ms'][0]:g} → {figures['get_p99_ms'][1]:g} ms")
    if figures.get("ok_after_s") is not None and "put_p99_ms" not in figures:
        words.append(f"well after {figures['ok_after_s']:g} s")
    if "ok_after_s" in figures and figures["ok_after_s"] is None and not any("in time" in note for note in found["notes"]):
        words.append("does not catch up by itself")
    if any("in time" in note for note in found["notes"]):
        words.append("not well in 3 min")
    if any("refuses writes" in note for note in found["notes"]):
        words.append("**stays full**")
    if not end or not lost(end):
        words.insert(0, "keeps all" if end else "")
    text = "; ".join(word for word in words if word)
    return text + (f" | {' | '.join(found['notes'])} | {found['health']}" if is_full else "")


def page(result, path):
    """The page."""
    facts, systems = result["facts"], result["systems"]
    present = {name: about for name, about in systems.items() if about["scenes"]}
    lines = ["# The pull matrix", "",
             "What becomes of data when drives are pulled, come back, are replaced, rot, are slow or full: twelve scenes for Varve and for others, on the "
             "same files of one machine. `tests/pull-matrix --save` makes this page of its result.", "",
             f"{facts['machine']}, commit {facts['commit']}, {facts['date']}; [the data]({path}). Each scene has a fresh system "
             "with 96 items of 1 B to 3 MiB; versions of an item differ, so an old one is seen. Drives are loop devices of 512 MiB over files; "
             "one that is pulled answers every request with an error from one moment on, as seen by the file system on it."
             + (f" Of this run: {facts['remark']}." if "remark" in facts else ""), "",
             _line(["", *(about["title"] for about in present.values())]), _line(["---"] * (len(present) + 1)),
             _line(["drives, of which may be lost", *(f"{about['drives']}, {about['parity']}" for about in present.values())])]
    for name, (title, _) in SCENES.items():
        cells = [outcome(about["scenes"][name]) if name in about["scenes"] else "not run" for about in present.values()]
        lines.append(_line([title, *cells]))
    lines += ["", "**Loses** counts items that were acknowledged and cannot be read right at the end, when no more drives are away than the system is to "
              "survive. **False ok**: by its own words the system was well while it was not redundant, or it lost something after it had said so. \"Well after\" "
              "is how long it took until it said so; what does not catch up by itself waits for a replacement. \"Errors meanwhile\" are reads that were refused before the end.", "", "## Scenes", "",
              _line(["scene", "what happens"]), _line(["---"] * 2)]
    lines += [_line([title, text]) for title, text in SCENES.values()]
    lines += ["", "## Systems", "", _line(["system", "version", "how"]), _line(["---"] * 3)]
    lines += [_line([about["title"], about.get("version") or f"absent: {about.get('absent')}", about["about"]]) for about in systems.values()]
    notes = [(about["title"], SCENES[name][0], note) for about in present.values() for name, found in about["scenes"].items()
             for note in [*found["notes"], *([found["inapplicable"]] if "inapplicable" in found else []), *([found["broke"]] if "broke" in found else [])]]
    if notes:
        lines += ["", "## Notes", "", _line(["system", "scene", ""]), _line(["---"] * 3)]
        lines += [_line([title, scene, note.replace("|", "/").replace("<", "‹").replace(">", "›")]) for title, scene, note in notes]
    return "\n".join(lines) + "\n"


def _line(cells):
    return "| " + " | ".join(cells) + " |"
