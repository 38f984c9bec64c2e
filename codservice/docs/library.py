"""What /docs/ holds: the Markdown of `docs/` as pages, the API reference, and files that may be downloaded.

English pages are in `docs/`, French and Arabic ones under the same names in its folders. Only what PARTS, FILES and
ELSEWHERE name has an address: no path of a request reaches the file system, and a file that somebody puts beside the
others, such as a filled-in example, is not served.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from os.path import normpath
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from codservice.api.schema import description
from codservice.docs import reference
from codservice.docs.rendering import Rendered, Section, render, typeset

FOLDER = settings.BASE_DIR / "docs"
LANGUAGES = dict(settings.LANGUAGES)
FOLDERS = {"en": "", "fr": "fr/", "ar-dz": "ar/"}  # of the languages' pages, also in their addresses
# The languages in which a reader is given a page, best first: readers of Arabic here read French before English.
READ = {"en": ["en"], "fr": ["fr", "en"], "ar-dz": ["ar-dz", "fr", "en"]}
# The pages after `index`, in reading order.
PARTS = (
    (
        _("For merchants"),
        [
            "without-a-developer",
            *("quick-start", "test-mode", "authentication", "orders", "products", "inventory", "webhooks", "events"),
            *("errors", "limits", "idempotency", "pagination", "regions", "programs", "clients", "changes"),
            "team",
            "changelog",
        ],
    ),
    (_("API reference"), [*reference.NAMES]),
    (_("For agents"), ["agents", "supervisors"]),
    (_("For operators"), ["operators", "scale", "reliability", "security"]),
    (_("For developers"), ["architecture", "dependencies"]),
)
# Pages at the top of the project, where people look for them in a repository.
AT_THE_TOP = {"changelog": "CHANGELOG.md", "security": "SECURITY.md"}
# The files that may be downloaded.
FILES = (
    "postman.json",
    *(f"examples/{name}" for name in ("client.py", "client.ts", "receiver.mjs", "shop.php", "shop.py")),
    *(f"examples/verify.{language}" for language in ("go", "mjs", "php", "py")),
    *(f"images/{name}.png" for name in ("quick-start", "quick-start.fr")),
    *(f"images/{name}{language}.png" for name in ("console", "desk") for language in ("", ".ar", ".fr")),
    *(f"images/{name}.svg" for name in ("delivery", "delivery.fr", "order", "order.fr", "parts")),
    *(f"operations/{name}" for name in ("alerts.yml", "grafana-dashboard.json", "partition.sql", "caddy/Caddyfile")),
    *(f"operations/compose/{name}.sh" for name in ("make-database", "make-secrets", "pin-images", "replace-web")),
    *(
        f"operations/kubernetes/{name}.yaml"
        for name in (
            *("beat", "kustomization", "migrate", "network", "secret.example", "settings", "web", "worker"),
            *(f"autoscaling/{name}" for name in ("kustomization", "web", "worker")),
        )
    ),
    *(f"operations/pgbouncer/{name}" for name in ("Dockerfile", "pgbouncer.ini", "role.sql")),
)
# Those that lie outside of `docs/`, by their address under /docs/.
ELSEWHERE = {
    f"regions/{name}": settings.BASE_DIR / "orders/regions/data" / name for name in ("wilayas.csv", "communes.csv")
}
TYPES = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    **dict.fromkeys(
        ("", ".py", ".php", ".mjs", ".ts", ".go", ".yaml", ".yml", ".sql", ".ini", ".sh"),
        "text/plain; charset=utf-8",
    ),
}
_EXAMPLES = re.compile(r"^```json [^\n]*\n(.*?)^```$", re.S | re.M)  # of bodies, in the guides


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    """Without language and suffix, such as `webhooks` or `index`."""
    language: str
    title: str
    html: str
    sections: list[Section]

    @property
    def url(self) -> str:
        return _address(self.language, self.name)


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity, and so usable as a key of caches
class Site:
    pages: dict[tuple[str, str], Page]
    """Keys are language and name."""
    files: dict[str, Path]
    """Keys are addresses under /docs/."""

    def best(self, language: str) -> dict[str, Page]:
        """Each page by its name, in the best language for readers of `language`."""
        best = {}
        for read in reversed(READ[language]):
            best |= {name: page for (lang, name), page in self.pages.items() if lang == read}
        return best

    def parts(self, language: str) -> Iterator[tuple[str, list[Page]]]:
        """The parts of the navigation, each with its pages."""
        best = self.best(language)
        for title, names in PARTS:
            yield str(title), [best[name] for name in names if name in best]


def _address(language: str, name: str) -> str:
    return f"/docs/{FOLDERS[language]}{'' if name == 'index' else name}"


def address(name: str) -> str:
    """The page's address for a reader of the active language. No page is rendered for it."""
    languages = READ.get(translation.get_language() or "en", READ["en"])
    return _address(next((language for language in languages if _path(language, name)), "en"), name)


def _written() -> list[tuple[str, str, Path]]:
    """Language, name and path of the pages that people have written."""
    names = ["index", *(name for _, names in PARTS for name in names if name not in reference.NAMES)]
    return [(language, name, path) for language in LANGUAGES for name in names if (path := _path(language, name))]


def site() -> Site:
    """All pages and files, as they are on the disk now."""
    files = tuple((name, path) for name in FILES if _is_ours(path := FOLDER / name))
    return _read(tuple((*page, page[-1].stat().st_mtime_ns) for page in _written()), files)


@lru_cache(maxsize=1)
def _read(pages: tuple[tuple[str, str, Path, int], ...], files: tuple[tuple[str, Path], ...]) -> Site:
    read: dict[tuple[str, str], Page] = {}
    for language, name, path, _changed in pages:  # English ones come first
        english = read.get(("en", name))
        read[language, name] = _page(language, name, path, english.sections if english else [])
    return Site(_reference() | read, dict(files) | ELSEWHERE)


@cache
def _reference() -> dict[tuple[str, str], Page]:
    """The pages of the API reference, in English like the description."""
    guides = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))]
    examples = [json.loads(block) for text in guides for block in _EXAMPLES.findall(text)]
    chapters = reference.chapters(description(), examples)
    return {("en", name): _made(name, "en", chapter) for name, chapter in chapters.items()}


def _path(language: str, name: str) -> Path | None:
    """The page's path, or None if there is none in this language."""
    if name not in AT_THE_TOP:
        path = FOLDER / FOLDERS[language] / f"{name}.md"
    elif language == "en":
        path = settings.BASE_DIR / AT_THE_TOP[name]
    else:
        return None
    return path if _is_ours(path) else None


def _is_ours(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _page(language: str, name: str, path: Path, english: list[Section]) -> Page:
    folder = "." if name in AT_THE_TOP else f"docs/{FOLDERS[language]}"
    with translation.override(language):
        rendered = render(path.read_text(encoding="utf-8"), lambda address: where_to(address, folder), english)
        return _made(name, language, rendered)


def _made(name: str, language: str, rendered: Rendered) -> Page:
    title = typeset(rendered.sections[0].heading) if rendered.sections else name
    return Page(name, language, title, rendered.html, rendered.sections)


def where_to(address: str, folder: str) -> str:
    """The site's address for an address in a page of `folder`. Those of other sites, or with only `#…`, are kept."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return address
    target = normpath(f"{folder}/{parts.path}")
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    for name, path in ELSEWHERE.items():
        if path == settings.BASE_DIR / target:
            return f"/docs/{name}"
    if target.endswith(".md"):
        language, name = _place(target)
        return f"/docs/{FOLDERS[language]}{'' if name in ('index', 'README') else name}{fragment}"
    return f"/{target}{fragment}"


def _place(path: str) -> tuple[str, str]:
    """Language and name of a page, from its path in the project."""
    for name, file in AT_THE_TOP.items():
        if path == file:
            return "en", name
    name = path.removesuffix(".md").removeprefix("docs/")
    for language, folder in FOLDERS.items():
        if folder and name.startswith(folder):
            return language, name.removeprefix(folder)
    return "en", name
