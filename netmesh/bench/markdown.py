"""The report as Markdown, made from its JSON and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from netmesh.bench import units
from netmesh.bench.targets import MIB, fastest_rust, is_aside

Json = Mapping[str, Any]

SHORT = {
    "core": "C core",
    "library": "linked libraries",
    "netmesh": "netmesh, Python",
    "pure": "pure reference",
    "rns-openssl": "rns, OpenSSL",
    "rns-internal": "rns, internal",
    "lxmf-rs": "LXMF-rs",
    "lxmf-rs-nodelay": "LXMF-rs, TCP_NODELAY",
    "rns-rs": "rns-rs",
    "beechat": "Beechat",
    "lxmf-rs-native": "LXMF-rs, native",
    "rns-rs-native": "rns-rs, native",
    "beechat-native": "Beechat, native",
    "netmesh-to-rns": "netmesh to rns",
    "rns-to-netmesh": "rns to netmesh",
    "netmesh-to-rns-rs": "netmesh to rns-rs",
    "rns-rs-to-netmesh": "rns-rs to netmesh",
    "netmesh-to-lxmf-rs": "netmesh to LXMF-rs",
    "lxmf-rs-to-netmesh": "LXMF-rs to netmesh",
}
"""Column heads."""

OF_RESULTS: Mapping[str, tuple[Callable[[float], str], str]] = {
    "tail": (units.duration, "99 of 100"),
    "arrival": (units.duration, "with the other program in"),
    "memory": (lambda value: units.size(round(value)), "peak memory"),
    "growth": (lambda value: units.size(round(value)), "memory growth"),
    "server_growth": (lambda value: units.size(round(value)), "memory growth of the server"),
    "client_cpu": (lambda value: f"{units.duration(value)}/MiB", "CPU of the sender"),
    "server_cpu": (lambda value: f"{units.duration(value)}/MiB", "CPU of the receiver"),
    "stalls": (lambda value: str(round(value)), "failed or stalled:"),
}
"""Units and texts of the targets on other figures than the time of a call."""


def render(report: Json) -> str:
    """The whole report."""
    parts = [
        _head(report),
        _targets(report),
        _controls(report),
        *(_suite(report, suite) for suite in report["suites"] if suite["name"] != "control"),
        _stamps(report),
        _ratios(report),
        _closing(report),
        _tails(report),
        _pairs(report),
        _memory(report),
        _arms(report),
        _notes(report),
        _method(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> str:
    """A Markdown table; columns after the first ones are numbers."""
    align = ["---"] * text_columns + ["--:"] * (len(head) - text_columns)
    lines = [head, align, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def columns(report: Json, *, own: bool = True) -> list[Json]:
    """The arms that have a column: those that were measured, and missing default ones."""
    shown = []
    for arm in report["arms"]:
        if arm["again"] is not None or arm["id"] == "library":
            continue
        if arm["available"] or not arm["id"].endswith("-native"):
            shown.append(arm)
    return shown if own else [arm for arm in shown if arm["kind"] not in ("core", "python")]


def _time(row: Json, arm: str, key: str = "p50_ns") -> str:
    result = row["results"].get(arm)
    if result is None:
        return "-"
    if "error" in result:
        return "**failed**"
    return units.duration(result[key])


def _head(report: Json) -> str:
    env, source = report["environment"], report["netmesh"]
    commit = source["commit"] or "not a checkout"
    changed = ", with uncommitted changes" if source["changed"] else ""
    lines = [
        "# netmesh comparison report",
        "",
        f"netmesh {source['version']} (commit {commit}{changed}), measured {report['created']} in "
        f"{report['seconds']:.0f} s, mode {report['mode']['name']}.",
        "",
        f"Machine: {env['cpu']}{' (virtual)' if env['virtual'] else ''}, {env['cpus']} processors, "
        f"{units.size(env['memory_bytes'])}; {env['system']}, {env['libc']}, {env['python']}; "
        f"{' '.join(env['cpu_flags'])}. Load {env['load_before']} before, {env['load_after']} "
        "after.",
        "",
        "Every time is the median over runs of the median over blocks, for one call. All arms "
        "were measured in one go, block by block in turn, and their outputs checked. Figures "
        "called *published* come from another machine: "
        f"{report['published_source']['text']} ({report['published_source']['machine']}).",
    ]
    missing = [arm for arm in columns(report) if not arm["available"]]
    if missing:
        lines += ["", "Not measured here:", ""]
        lines += [f"- {arm['title']}: {arm['reason']}." for arm in missing]
    return "\n".join(lines)


def limit_text(target: Json) -> str:
    """A target's limit in words."""
    if target["measure"] == "time":
        return f"at most {units.duration(target['limit'])}"
    if target["measure"] == "rate":
        return f"at least {units.rate(target['limit'])}"
    if target["measure"] in OF_RESULTS:
        unit, text = OF_RESULTS[target["measure"]]
        return f"{text} at most {unit(target['limit'])}"
    other = SHORT.get(target["other"] or "", target["other"] or "")
    if target["measure"] == "above":
        return f"at most {units.duration(target['limit'])} above {other}"
    if target["measure"] == "share":
        return f"at most {units.share(target['limit'] - 1)} above {other}"
    if target["limit"] == 1:
        return f"not slower than {other}"
    return f"{units.times(target['limit'])} as fast as {other}"


def value_text(target: Json) -> str:
    """What was measured for a target."""
    value = target["value"]
    if value is None:
        return "not measured"
    if target["measure"] == "time":
        return units.duration(value)
    if target["measure"] == "rate":
        return units.rate(value)
    if target["measure"] in OF_RESULTS:
        return OF_RESULTS[target["measure"]][0](value)
    if target["measure"] == "above":
        return f"{'+' if value >= 0 else '-'}{units.duration(abs(value))}"
    if target["measure"] == "share":
        return f"{100 * (value - 1):+.1f} %"
    return units.times(value)


def _targets(report: Json) -> str:
    known = [t for t in report["targets"] if t["reached"] is not None]
    if not known:
        return ""
    required = [t for t in known if t["required"]]
    missed = [t for t in required if not t["reached"]]
    lines = [
        "## Targets",
        "",
        f"{len(required) - len(missed)} of {len(required)} required targets are reached. Stretch "
        "targets are the best that is known to be possible on a current server core.",
    ]
    groups = (
        ("Missed:", missed),
        ("Reached:", [t for t in required if t["reached"]]),
        ("Stretch:", [t for t in known if not t["required"]]),
    )
    for title, group in groups:
        if group:
            lines += ["", title, "", _target_table(group)]
    return "\n".join(lines)


def _target_table(group: Sequence[Json]) -> str:
    return table(
        ["Row", "Arm", "Target", "Measured", "Reached"],
        [
            [
                f"`{t['row']}`",
                SHORT[t["arm"]],
                limit_text(t),
                value_text(t),
                "yes" if t["reached"] else "no",
            ]
            for t in group
        ],
        text_columns=3,
    )


def _controls(report: Json) -> str:
    rows = {row["id"]: row for row in report["rows"] if row["suite"] == "control"}
    if not rows:
        return ""
    text = next(suite["text"] for suite in report["suites"] if suite["name"] == "control")
    lines = ["## Controls", "", text]
    if "control.aa" in rows:
        lines += ["", _control_aa(rows["control.aa"])]
    if "control.aa.pair" in rows:
        lines += ["", _control_aa(rows["control.aa.pair"])]
    if "control.empty" in rows:
        arms = [a for a in columns(report) if a["id"] in rows["control.empty"]["results"]]
        cells = [_time(rows["control.empty"], arm["id"]) for arm in arms]
        head = ["", *(SHORT[arm["id"]] for arm in arms)]
        lines += ["", table(head, [["an empty call", *cells]])]
    return "\n".join(lines)


def _control_aa(row: Json) -> str:
    made = []
    for arm in ("core", "netmesh"):
        first, second = row["results"].get(arm, {}), row["results"].get(f"{arm}-again", {})
        if "p50_ns" in first and "p50_ns" in second:
            difference = second["p50_ns"] / first["p50_ns"] - 1
            times = [units.duration(result["p50_ns"]) for result in (first, second)]
            made.append([SHORT[arm], *times, f"{100 * difference:+.1f} %"])
    return table(["A/A", "first", "again", "difference"], made) if made else ""


def _suite(report: Json, suite: Json) -> str:
    rows = [row for row in report["rows"] if row["suite"] == suite["name"]]
    shown = [arm["id"] for arm in columns(report)]
    shown = [arm for arm in shown if any(arm in row["results"] for row in rows)]
    head = ["Operation", "Bytes", *(SHORT[arm] for arm in shown)]
    head += ["published Rust", "published Python"]
    head += ["C core ahead of the best other", "leads"]
    body = []
    for row in rows:
        name = f"{row['title']} `{row['id']}`"
        payload = "-" if row["payload_bytes"] is None else str(row["payload_bytes"])
        cells = [_time(row, arm) for arm in shown]
        body.append([name, payload, *cells, *_published(row), _ahead(row), leads(row)])
    published = [index for index in (-4, -3) if all(line[index] == "-" for line in body)]
    keep = [i for i in range(len(head)) if i - len(head) not in published]
    lines = [f"## {suite['title']}", "", suite["text"], ""]
    lines.append(table([head[i] for i in keep], [[line[i] for i in keep] for line in body]))
    return "\n".join(lines)


def _published(row: Json) -> list[str]:
    figures = row["published"]
    if figures is None:
        return ["-", "-"]
    best = figures["rust_best_ns"]
    rust = units.duration(figures["rust_ns"])
    rust = f"{rust} (best run {units.duration(best)})" if best else rust
    python = units.duration(figures["python_ns"])
    sides = figures["sides"]
    return [rust if "rust" in sides else "-", python if "python" in sides else "-"]


def _ahead(row: Json) -> str:
    core = row["results"].get("core", {})
    others = {
        arm: result["p50_ns"]
        for arm, result in row["results"].items()
        if "p50_ns" in result
        and arm not in ("core", "netmesh", "pure", "library")
        and not is_aside(arm)
    }
    if not row["comparable"] or "p50_ns" not in core or not others:
        return "-"
    return units.times(min(others.values()) / core["p50_ns"])


def leads(row: Json) -> str:
    """The fastest, and the best of the other side when the noise does not tell them apart."""
    if not row["comparable"]:
        return "unequal work"
    leader = row["leader"]
    if leader is None:
        return "-"
    names = [leader["arm"]]
    if leader["runner_up"] in leader["tied_with"]:
        names.append(leader["runner_up"])
    return " = ".join(SHORT.get(arm, arm) for arm in names)


def _stamps(report: Json) -> str:
    rows = [row for row in report["rows"] if row["unit"] == "try"]
    made = []
    for row in rows:
        for arm, result in row["results"].items():
            if "p50_ns" in result:
                made.append(
                    (1e9 / result["p50_ns"], row["id"], SHORT.get(arm, arm), result["note"])
                )
    if not made:
        return ""
    made.sort(key=lambda item: -item[0])
    body = [[stack, f"`{row}`", units.rate(per_s), note] for per_s, row, stack, note in made]
    head = "## Stamp search, all stacks\n\nTries a second on one thread, fastest first.\n\n"
    lines = [["Stack", "Row", "Tries", "One try"], ["---", "---", "--:", "---"], *body]
    return head + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _ratios(report: Json) -> str:
    """Every arm's time over the C core's, the upstream stack's over netmesh's from Python."""
    shown = [arm["id"] for arm in columns(report) if arm["id"] != "core"]
    shown = [arm for arm in shown if any(arm in row["ratios"] for row in report["rows"])]
    body = []
    for row in report["rows"]:
        if row["definition"] == "control" or len(row["ratios"]) < 2:
            continue
        cells = [units.times(row["ratios"].get(arm, {}).get("of_core")) for arm in shown]
        python = units.times(row["ratios"].get("rns-openssl", {}).get("of_netmesh"))
        body.append([f"`{row['id']}`", *cells, python, *_published_ratios(row)])
    if not body:
        return ""
    head = ["Row", *(f"{SHORT[arm]} / C core" for arm in shown)]
    head += ["rns, OpenSSL / netmesh, Python", "published Python / Rust", "the same here"]
    text = (
        "How many times as long an arm takes as another. The last two columns put the published "
        "ratio beside that of the same two stacks on this machine (rns with its internal provider "
        "over LXMF-rs), under the published definition."
    )
    return f"## Ratios\n\n{text}\n\n{table(head, body)}"


def _published_ratios(row: Json) -> list[str]:
    if row["definition"] != "published":
        return ["-", "-"]
    times = [row["results"].get(arm, {}).get("p50_ns") for arm in ("rns-internal", "lxmf-rs")]
    here = None if None in times else times[0] / times[1]
    return [units.times(row["published"]["ratio"]), units.times(here)]


def _closing(report: Json) -> str:
    rows = [
        row
        for row in report["rows"]
        if row["comparable"] and "p50_ns" in row["results"].get("core", {})
    ]
    against = [row for row in rows if fastest_rust(row) is not None]
    if not against:
        text = "No Rust stack was measured in this run."
    elif not report["notes"]:
        text = (
            f"In none of the {len(against)} comparable rows that a Rust stack has is one ahead of "
            "the C core by more than the noise."
        )
    else:
        text = "Rows in which a Rust stack is ahead of the C core by more than the noise:\n\n"
        text += "\n".join(f"- {note}" for note in report["notes"])
    return f"## Where others are ahead\n\n{text}"


def _details(report: Json, line: Callable[[Json], list[str]], head: list[str]) -> str:
    body = []
    for row in report["rows"]:
        for arm, result in row["results"].items():
            name = SHORT.get(arm, arm.replace("-again", ", again"))
            if "error" not in result:
                body.append([f"`{row['id']}`", name, *line(result)])
    return table(["Row", "Arm", *head], body, text_columns=2)


def _tails(report: Json) -> str:
    keys = ("p50_ns", "p95_ns", "p99_ns", "p99_9_ns", "max_ns")

    def line(result: Json) -> list[str]:
        single = result["single"]
        cells = ["-"] * 5 if single is None else [units.duration(single[key]) for key in keys]
        each = "" if single is None or single["calls_each"] == 1 else str(single["calls_each"])
        clock = "-" if not (single and single["clock_ns"]) else units.duration(single["clock_ns"])
        runs = len(result["runs_p50_ns"])
        spread = result["spread"] if runs > 1 else result["block_spread"]
        block = [units.duration(result["p50_ns"]), units.duration(result["min_ns"])]
        return [*block, units.share(spread), *cells, clock, each]

    head = ["block p50", "block min", "spread", "p50", "p95", "p99", "p99.9", "max"]
    return (
        "## Spread and single calls\n\nSpread: median absolute deviation of the runs' medians over "
        "their median; over the blocks when there was one run. The percentiles are those of single "
        "calls; each contains a reading of the clock, whose cost is the next column. The last "
        "column says how many calls one entry spans, where that is not one.\n\n"
        + _details(report, line, [*head, "clock", "calls each"])
    )


def _pairs(report: Json) -> str:
    """What rows between two processes have beside their times."""

    def line(row: Json, result: Json) -> list[str]:
        pair = result["pair"]
        sides = (pair["client_cpu_ns"], pair["server_cpu_ns"])
        inner, arrival = pair["engine_p50_ns"], pair["arrival_p50_ns"]
        size = None if row["payload_bytes"] is None else row["payload_bytes"] * row["batch"]
        return [
            f"{units.significant(size / result['p50_ns'] * 1e9 / MIB)} MiB/s"
            if size is not None and size >= MIB // 2
            else "-",
            "-" if inner is None else units.duration(inner),
            "-" if arrival is None else units.duration(arrival),
            *map(units.duration, sides),
            *(units.size(round(pair[f"{side}_growth_bytes"])) for side in ("client", "server")),
            str(pair["failed"]),
            str(pair["stalls"]),
        ]

    body = [
        [f"`{row['id']}`", SHORT.get(arm, arm.replace("-again", ", again")), *line(row, result)]
        for row in report["rows"]
        for arm, result in row["results"].items()
        if result.get("pair") is not None
    ]
    if not body:
        return ""
    head = ["Row", "Arm", "rate", "engine p50", "arrival p50", "CPU client", "CPU server"]
    head += ["memory client", "memory server", "failed", "stalls"]
    return (
        "## Between two processes\n\nEngine: the same samples by the stamps of netmesh's engine. "
        "Arrival: until the other side's program has it; the proof may be back before. CPU is that "
        "of one sample. Memory is how much a process grew over its size before the row at its "
        "peak; in `links.1000` for each link; in `idle` above a process that has imported asyncio "
        "(0 for programs that are not Python). A stall is a sample that waited for a timer: at "
        "least ten times the median of its block and 50 ms. Samples that failed are in no time.\n\n"
        + table(head, body, text_columns=2)
    )


def _memory(report: Json) -> str:
    def line(result: Json) -> list[str]:
        memory = [units.size(result["rss_bytes"]), units.size(result["rss_over_empty_bytes"])]
        return [units.duration(result["cpu_ns"]), *memory, str(result["blocks"])]

    measured = report["mode"]["memory"]
    text = (
        "CPU is the process time of one call. Memory is the peak of a process that does this row "
        "alone, and what that is above the same process doing nothing; inputs are included. The "
        "native loops run inside a Python process, whose own memory is in their peak."
        if measured
        else "CPU is the process time of one call. Memory is measured in full runs only."
    )
    head = ["CPU", "peak memory", "above empty", "blocks"]
    return f"## CPU and memory\n\n{text}\n\n" + _details(report, line, head)


def _arms(report: Json) -> str:
    body = []
    for arm in report["arms"]:
        if arm["again"] is None and arm["available"]:
            versions = ", ".join(f"{name} {version}" for name, version in arm["versions"].items())
            body.append([arm["title"], versions, arm["licence"] or "-", arm["flags"] or "-"])
    lines = [["Arm", "Versions", "Licence", "Build"], ["---"] * 4, *body]
    return "## Arms\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _notes(report: Json) -> str:
    lines = ["## What one call does", ""]
    for row in report["rows"]:
        batch = f" ({row['batch']} in one call)" if row["batch"] > 1 else ""
        lines.append(f"- `{row['id']}`{batch}: {row['operation']}.")
        for arm, result in row["results"].items():
            if not arm.endswith("-again"):
                text = f"**{result['error']}**" if "error" in result else result["note"]
                lines.append(f"  - {SHORT.get(arm, arm)}: {text}")
        available = {arm["id"] for arm in report["arms"] if arm["available"]}
        for arm, reason in row["missing"].items():
            if arm in available and reason != "has no such operation":
                lines.append(f"  - {SHORT.get(arm, arm)}: not measured, {reason}")
    return "\n".join(lines)


def _method(report: Json) -> str:
    mode, env = report["mode"], report["environment"]
    core = env["worker_core"]
    pinned = f"processor {core}" if core is not None else "one processor of those allowed"
    return (
        "## Method\n\n"
        f"{mode['runs']} runs with fresh processes, one process for each arm, all on {pinned}, one "
        f"running at a time. {mode['blocks']} blocks of {units.duration(mode['block_ns'])} in "
        f"each run, arm after arm in turn; an arm whose call is longer gets fewer, at least "
        f"{mode['blocks_min']} in each run. The output of the last call of every block is compared "
        "with a value that was computed without the code under test. Inputs rotate; signed and "
        "verified rows must refuse a forged input first. docs/reference/report.md describes the "
        "JSON that this page is made from."
    )
