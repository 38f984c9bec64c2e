"""Measures all that the tables of README.md have, one part after the other. Ends with a JSON object of figures by part.

    make bench
    make bench PARTS="orders calls"

It takes hours and 45 GB of disk, on a machine that does nothing else. If a part fails, this is reported at the end, and
the others go on.
"""

import json
import subprocess
import sys
import time

from benchmarks import command_line

# What fills the largest databases comes last.
PARTS = (
    "orders", "calls", "deliveries", "shares", "seeing", "commands", "mix", "starts", "order_peers", "retention",
    "growth", "desk", "figures", "lists", "feed",
)  # fmt: skip


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all without")
    parts = parser.parse_args().parts or PARTS
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {min(unknown)}: they are {', '.join(PARTS)}")
    figures: dict[str, dict[str, object]] = {}
    for part in parts:
        began = time.monotonic()
        print(f"=== {part}", flush=True)
        figures[part] = measured(part)
        print(f"=== {part}: {time.monotonic() - began:.0f} s", flush=True)
    failed = [part for part, found in figures.items() if not found]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    print(json.dumps(figures))
    return int(bool(failed))


def measured(part: str) -> dict[str, object]:
    """Run a part, showing its output, and return its figures: none if it failed."""
    command = [sys.executable, "-W", "ignore", "-u", "-m", f"benchmarks.{part}"]
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line
    return json.loads(last) if process.returncode == 0 else {}


if __name__ == "__main__":
    sys.exit(main())
