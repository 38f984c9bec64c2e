"""Public tools against the running service. Each is limited in time, and reports what it found."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.attack.target import Target
from tests.harness.npm import program
from tests.harness.processes import CHECKOUT

Said = tuple[str, list[str]]
"""What was tried, in words, and the faults that were found."""

BIN = Path(sys.executable).parent
ATTACKERS = BIN.parent / "attack" / "bin"
WORDS = Path("/usr/share/dirb/wordlists")


def run(*command: str | Path, seconds: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends. After `seconds` it is stopped, and its output until then counts."""
    try:
        return subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=seconds,
            check=False, stdin=subprocess.DEVNULL, **options,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        return subprocess.CompletedProcess(late.cmd, 124, said, "")


def schemathesis(target: Target, examples: int = 300, seconds: int = 150) -> Said:
    """All its checks and phases against the description (tests/schemathesis_hooks.py tells it what exists)."""
    done = run(
        BIN / "schemathesis", "run", f"{target.url}/api/schema", "--checks=all", f"--max-examples={examples}",
        "--phases=examples,coverage,fuzzing,stateful", "--seed=1", "--no-color", "--generation-database=none",
        "--continue-on-failure", f"--max-time={seconds}", f"--header=Authorization: Bearer {target.key}",
        seconds=seconds + 90, cwd=target.folder,
        env=os.environ | {
            "SCHEMATHESIS_HOOKS": "tests.schemathesis_hooks", "PYTHONPATH": str(CHECKOUT),
            "CODSERVICE_ORDERS": target.ids.get("orders", ""),
            "CODSERVICE_PRODUCTS": ",".join(f"{id_}={sku}" for id_, sku in target.products) or "=",
        },
    )  # fmt: skip
    generated = re.search(r"(\d+) generated", done.stdout)
    failures = [
        f"{name}: {said[:1500]}"
        for name, said in re.findall(r"^_+ (\S.*?) _+$(.*?)(?=^[_=])", done.stdout, re.M | re.S)
    ]
    if done.returncode and not failures:
        failures = [f"ended with {done.returncode}: {(done.stdout + done.stderr)[-400:]}"]
    return f"{generated[1] if generated else 0} cases of up to {examples} an operation", failures


def sqlmap(target: Target, seconds: int = 150) -> Said:
    """Every parameter of the description's operations, and those of three pages."""
    common = [
        ATTACKERS / "sqlmap", "--batch", "--disable-coloring", "--level=2", "--risk=1", "--threads=4",
        "--time-sec=2", "--flush-session", "--retries=0", "--timeout=10", f"--output-dir={target.folder / 'sqlmap'}",
        "--ignore-code=*", *(["--dbms=PostgreSQL"] if target.people else []),
    ]  # fmt: skip
    description = target.folder / "openapi.json"
    description.write_text(json.dumps(yaml.safe_load(target.send("GET", "/api/schema")[1])))
    api = run(*common, f"--openapi={description}", f"--openapi-base={target.url}",
        f"--headers=Authorization: Bearer {target.key}",
        "--skip-static", seconds=seconds / 2, cwd=target.folder)  # fmt: skip
    said = api.stdout
    if target.people:
        asked = ["/account/orders?q=1&status=confirmed&phone=1&created_from=2020-01-01&before=1", "/docs/search?q=1"]
        for who, path in [("holder", asked[0]), ("holder", asked[1]), ("supervisor", "/console/orders/order/?q=1&p=0")]:
            cookie = f"--cookie={target.people[who]}"
            said += run(*common, "-u", target.url + path, cookie, seconds=seconds / 6, cwd=target.folder).stdout
    tried = len(re.findall(r"parameter '[^']+' does not seem to be injectable|skipping static \w+ parameter", said))
    found = re.findall(r"^Parameter: (.*)$", said, re.M)
    return f"{tried} parameters to the end", sorted(set(found))


# The attack is over plain http, where cookies for https only would never come back. With https all of ours are Secure
# (`check --deploy` in tests/test_settings.py).
EXCUSED = {"Secure Flag cookie"}
IN_ADDRESSES = ("crlf", "exec", "file", "ldap", "permanentxss", "redirect", "shellshock", "sql", "xss")


def wapiti(target: Target, seconds: int = 60) -> Said:
    """A crawl of each room's pages as one of its people, both at once, with all modules that need nothing outside.

    `timesql` is left out, because sqlmap tries more such statements that wait, on every parameter. What forms send is
    stopped by the check of their token, so tests/pages tries each of their fields.
    """
    rooms = {"holder": "/account/", "supervisor": "/console/"} if target.people else {"": "/account/"}
    with ThreadPoolExecutor(len(rooms)) as pool:
        crawled = list(pool.map(lambda room: _crawled(target, *room, seconds), rooms.items()))
    return f"{sum(pages for pages, _ in crawled)} pages crawled", [each for _, found in crawled for each in found]


def _crawled(target: Target, who: str, start: str, seconds: int) -> tuple[int, list[str]]:
    modules = "backup,cookieflags,csp,csrf,htaccess,http_headers,methods,upload,"
    modules += ",".join(f"{name}:get" for name in IN_ADDRESSES)
    report, own = target.folder / f"wapiti-{who}.json", target.folder / f"wapiti-{who}"
    command = [
        ATTACKERS / "wapiti", "-u", target.url + start, "-m", modules, "--flush-session", "-v", "0",
        "--max-scan-time", str(seconds), "--max-files-per-dir", "8", "-f", "json", "-o", report, "-t", "10",
        "--store-session", own, "--store-config", own,
        "-H", "Connection: close",  # so that requests are spread over the web processes
        "-x", f"{target.url}/account/logout", "-x", f"{target.url}/console/logout/", "--no-bugreport",
    ]  # fmt: skip
    if target.people:
        command += ["-C", target.people[who]]
    done = run(*command, seconds=40 * seconds, cwd=target.folder)  # --max-attack-time would lock its own database
    if not report.exists():
        return 0, [f"no report of {who}: {(done.stdout + done.stderr)[-1500:]}"]
    said = json.loads(report.read_text())
    found = [
        f"{kind}: {one['method']} {one['path']} {one['info'][:150]}"
        for kind, each in [*said["vulnerabilities"].items(), *said["anomalies"].items()]
        for one in each
        if kind not in EXCUSED
    ]
    return said["infos"]["crawled_pages_nbr"], found


def ffuf(target: Target, seconds: int = 20) -> Said:
    """dirb's list of common names in every folder: only our pages and files of docs/ may answer."""
    described = yaml.safe_load(target.send("GET", "/api/schema")[1])["paths"]
    files = run("git", "ls-files", "docs", cwd=CHECKOUT).stdout.split()
    linked = re.findall(r'href="(/docs/[^"#?]*)"', target.send("GET", "/docs/")[1].decode("utf-8", "replace"))
    known = {path for _, path in target.pages} | {f"/{name.removesuffix('.md')}" for name in files} | {*linked}
    known |= {"/api/docs", "/api/schema", "/account/logout", "/console/logout/", *described} if target.people else set()
    found, cut_short = [], []
    words = WORDS / "common.txt"
    for folder in ("/", "/account/", "/console/", "/docs/", "/docs/operations/", "/api/", "/api/v1/", "/static/"):
        report, started = target.folder / "ffuf.json", time.monotonic()
        report.unlink(missing_ok=True)  # of the previous folder
        run(program("ffuf"), "-w", words, "-u", f"{target.url}{folder}FUZZ", "-mc", "all", "-fc", "404", "-t", "8",
            "-o", report, "-of", "json", "-s", "-maxtime", str(seconds), "-H", f"Authorization: Bearer {target.key}",
            seconds=seconds + 10)  # fmt: skip
        if time.monotonic() - started >= seconds:
            cut_short.append(folder)
        for each in json.loads(report.read_text())["results"] or []:
            path = urlsplit(each["url"]).path
            if each["status"] >= 500 or each["status"] == 429 or not _is_ours(path, known):
                found.append(f"{path} answers {each['status']}")
    names = len(words.read_text(errors="replace").split())
    return f"{names} names in each of 8 folders{', not to the end in ' * bool(cut_short)}{' '.join(cut_short)}", found


def _is_ours(path: str, known: set[str]) -> bool:
    """Whether a path is known, with or without a slash at its end, which people add or forget."""
    return bool({path, path.rstrip("/"), path.rstrip("/") + "/", path.partition("#")[0]} & known)


# Headers that never end, bodies that never end, answers that are read byte by byte.
SLOW = (
    ("-H -i 2 -x 24", "/healthz"),
    ("-B -i 2 -x 24", "/account/login"),
    ("-X -w 1 -y 8 -n 2 -z 1 -k 3", "/docs/architecture"),
)


def slowhttptest(target: Target, seconds: int = 15, connections: int = 400) -> Said:
    """Slow headers, slow bodies and slow readers, while the service must keep answering others."""
    found, answers = [], []
    for manner, path in SLOW:
        over = threading.Event()
        waits: list[float] = []
        other = threading.Thread(target=_ask_until, args=(target, over, waits))
        other.start()
        done = run(
            program("slowhttptest"), *manner.split(), "-c", str(connections), "-r", "200", "-l", str(seconds),
            "-p", "3", "-u", target.url + path, seconds=seconds + 30,
        )  # fmt: skip
        over.set()
        other.join()
        answers.append(max(waits))
        if re.search(r"service available:\s*(\x1b\[[\d;]*m)?\s*NO", done.stdout) or max(waits) > 3:
            found.append(f"{manner} {path}: others waited {max(waits):.1f} s")
    return f"{connections} clients, 3 manners; others waited {max(answers):.2f} s at most", found


def _ask_until(target: Target, over: threading.Event, waits: list[float]) -> None:
    while not over.is_set() or not waits:
        started = time.monotonic()
        status, _ = target.send("GET", "/healthz")
        waits.append(time.monotonic() - started if status == 200 else 99.0)
        over.wait(0.2)
