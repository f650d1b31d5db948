#!/usr/bin/env python3
"""What survivors.sh needs to know of the output of cargo-mutants.

survivors.py patches <mutants.out> <folder>: writes the diff of each survivor, to be applied by patch --strip 0.
survivors.py explained <mutants.out> <output of check.sh> <docs/mutants.md>: fails where a mutant survived the unit tests
and the simulation, and the page gives no reason.
"""

import json
import re
import sys
from pathlib import Path


def names(folder: Path) -> list[str]:
    """Survivors: what the unit tests did not notice. What runs for ever they noticed."""
    return (folder / "missed.txt").read_text().splitlines()


def file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:180]


def without_place(name: str) -> str:
    """`file: change`, because lines move."""
    return re.sub(r":\d+:\d+: ", ": ", name, count=1)


def patches(folder: Path, target: Path) -> None:
    mutants = {mutant["name"]: mutant for mutant in json.loads((folder / "mutants.json").read_text())}
    for number, name in enumerate(names(folder)):
        mutant = mutants[name]
        diff = mutant.get("diff") or (folder / mutant["diff_path"]).read_text()
        # The second label is a description, which patch would take for a file.
        lines = diff.splitlines(keepends=True)
        header = next(index for index, line in enumerate(lines) if line.startswith("+++ "))
        lines[header] = f"+++ {mutant['file']}\n"
        (target / f"{number:04}-{file_name(name)}.patch").write_text("".join(lines))


def explained(folder: Path, played: Path, page: Path) -> None:
    missed = names(folder)
    lines = played.read_text().splitlines()
    unseen = []
    for number, name in enumerate(missed):
        patch = f"{number:04}-{file_name(name)}: "
        told = next((line for line in lines if line.startswith(patch)), "")
        if told.startswith(f"{patch}not found within"):
            unseen.append(name)
        elif not told.startswith(f"{patch}found"):
            sys.exit(f"{name} was not played: {told or 'no line tells of it'}")
    print(f"{len(missed)} survive the unit tests, {len(unseen)} of them the simulation too")
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", page.read_text(), re.MULTILINE)
    reasons = {f"{file}: {change}".replace("\\|", "|") for file, change in rows}
    unexplained = [name for name in unseen if without_place(name) not in reasons]
    for name in unexplained:
        print(f"without a reason in {page.name}: {name}")
    for reason in sorted(reasons - {without_place(name) for name in unseen}):
        print(f"{page.name} explains what does not survive, or was not tried: {reason}")
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    {"patches": patches, "explained": explained}[command](*map(Path, paths))
