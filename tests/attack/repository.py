"""Checks of the repository: our code, what looks like a secret, and the packages that production installs."""

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.attack.judges import ATTACKERS, BIN, Said, run
from tests.harness.processes import CHECKOUT

OURS = ["agents", "codservice", "inventory", "orders", "webhooks", "manage.py"]
TABLES = ("package-lock.json", ".csv", ".po", ".mo", "words.txt")
NOT_TRIED = "not tried: "
OLD = "django==5.2.1\n"  # with advisories, and not the newest of its line

# What looks like a secret, and why it is none.
HARMLESS = {
    "bench": "of a benchmark's own throw-away server",
    "correct horse": "password of everybody in tests",
    "a horse is no battery": "password of everybody under load in tests",
    "whsec_test": "a secret that a test makes up",
    "quite another word": "password that a test makes up",
    "true": "whether one is to be changed",
    "wrong": "what is sent where the password must be refused",
    "operators/person_password.html": "a page's name",
    "password": "placeholder in the operators' examples",
    "fifty-random-characters": "placeholder in the operators' examples",
    "codservice-tls": "name of a Kubernetes secret, not what is in it",
    "webhooks:write": "scope that a call needs",
    "pw": "in a URL that must be refused",
    "word": "in a URL that must be refused",
    "hidden": "in a URL that must be refused",
    "whsec_": "beginning of a secret that a test makes up",
    "whsec_mine": "what a client may not choose",
    "cod_live_0123456789abcdefghij": "what the log must not show, made up",
    "cod_test_AbCdEfGhIjKlMnOpQrSt": "what the log must not show, made up",
    "whsec_AAEC…": "beginning of a documented example",
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=": "a documented example: the bytes 0 to 31",
}


def bandit(paths: Iterable[str | Path] = OURS) -> Said:
    """What bandit finds in our code, except in lines that give a reason: `# noqa: S608  (our own text)`.

    Its rules are ruff's `S`. B404, which warns of importing subprocess, is left out because B603 judges each call.
    """
    done = run(BIN / "bandit", "-q", "-r", *paths, "-f", "json", "-s", "B404", cwd=CHECKOUT)
    result = json.loads(done.stdout)
    found = []
    for each in result["results"]:
        lines = (CHECKOUT / each["filename"]).read_text(encoding="utf-8").splitlines()
        said = " ".join(lines[min(each["line_range"]) - 1 : max(each["line_range"])])
        value = re.search(r"hardcoded password: '(.*)'", each["issue_text"])
        if value and value[1] in HARMLESS:
            continue
        if not re.search(rf"# noqa: S{each['test_id'][1:]}\b\s*(\(\w|- \w)", said):
            found.append(f"{each['filename']}:{each['line_number']} {each['test_id']} {each['issue_text']}")
    return f"{result['metrics']['_totals']['loc']} lines", found


def tracked() -> list[Path]:
    """The files that git tracks, except npm's lock files, which are full of hashes, and tables of places and words."""
    names = run("git", "ls-files", "-z", cwd=CHECKOUT).stdout.split("\0")
    return [CHECKOUT / name for name in names if name and not name.endswith(TABLES)]


def secrets(paths: Iterable[Path] | None = None) -> Said:
    """What detect-secrets' detectors find in all tracked files, or in `paths`, except what is HARMLESS."""
    paths = tracked() if paths is None else list(paths)
    found = suspects(paths)
    return f"{len(paths)} files", sorted(place for value in found.keys() - HARMLESS for place in found[value])


def suspects(paths: Iterable[Path]) -> dict[str | None, list[str]]:
    """All that detect-secrets' detectors find in `paths`: each value, with its places.

    To ask each detector about each line takes long, and most files have nothing for any. So they are asked about whole
    files first. What lies in one is then found as ever, by its lines.
    """
    from detect_secrets import SecretsCollection
    from detect_secrets.core.scan import _get_lines_from_file
    from detect_secrets.plugins.base import RegexBasedDetector
    from detect_secrets.settings import default_settings, get_plugins

    def is_suspect(path: Path) -> bool:
        return any(
            plugin.analyze_line(filename=str(path), line="\n".join(map(str.rstrip, lines)))
            for lines in _get_lines_from_file(str(path))
            for plugin in get_plugins()
        )

    collection = SecretsCollection()
    with default_settings():
        for plugin in get_plugins():
            if isinstance(plugin, RegexBasedDetector):  # ^ and $ are the ends of each line
                plugin.denylist = [re.compile(each.pattern, each.flags | re.M) for each in plugin.denylist]
        for path in filter(is_suspect, paths):
            collection.scan_file(str(path))
    found = defaultdict[str | None, list[str]](list)
    for _, secret in collection:
        found[secret.secret_value].append(f"{Path(secret.filename).name}:{secret.line_number} {secret.type}")
    return found


def pins(requirements: str | None = None) -> Said:
    """Check that each pin is the newest release of its line and was not yanked: security fixes come as such releases.

    This needs only a package index, no advisories (see `advisories`).
    """
    if requirements is None:
        requirements = (CHECKOUT / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)", requirements, re.M))
    with tempfile.TemporaryDirectory() as folder:
        wanted, exact = Path(folder, "wanted.in"), Path(folder, "exact.in")
        wanted.write_text("\n".join(f"{name}~={version}" for name, version in pinned.items() if "." in version))
        exact.write_text("\n".join(f"{name}=={version}" for name, version in pinned.items()))
        command = [BIN / "uv", "pip", "compile", "--no-deps", "--no-header", "--no-annotate", "--quiet"]
        newest = run(*command, "--upgrade", "--no-cache", wanted)
        withdrawn = run(*command, exact)
    if newest.returncode:
        return f"{NOT_TRIED}{newest.stderr.strip()[-200:]}", []
    lines = dict(re.findall(r"^([\w.-]+)==([\w.]+)", newest.stdout, re.M))
    found = [
        f"{name} {version}: {lines[name]} is out"
        for name, version in pinned.items()
        if lines.get(name, version) != version
    ]
    return f"{len(pinned)} packages", found + re.findall(r".*yanked.*", withdrawn.stderr)


def advisories() -> Said:
    """What pip-audit finds in PyPI's advisories. A pin with known ones shows that it can read them."""
    command = [ATTACKERS / "pip-audit", "--no-deps", "--disable-pip", "--format=json", "-r"]
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder, "known.txt")
        known.write_text(OLD)
        if '"vulns": [{' not in run(*command, known).stdout:
            return f"{NOT_TRIED}PyPI's advisories cannot be read from here", []
        result = json.loads(run(*command, CHECKOUT / "requirements.txt").stdout)
    found = [
        f"{each['name']} {each['version']}: {one['id']}"
        for each in result["dependencies"]
        for one in each.get("vulns", [])
    ]
    return f"{len(result['dependencies'])} packages", found
