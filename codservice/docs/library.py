"""What /docs/ holds: the Markdown of `docs/` as pages, and the files beside them that may be downloaded.

English pages lie in `docs/`, French ones under the same names in `docs/fr/`. Only what is found there when the pages
are read, and what apps `publish`, has an address: no path of a request ever reaches the file system.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from os.path import normpath
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from codservice.docs.rendering import Section, render

FOLDER = settings.BASE_DIR / "docs"
LANGUAGES = {"en": "English", "fr": "Français"}
# The order in which pages are read; one that is not named comes last in its part.
PARTS = (
    (
        _("For merchants"),
        [
            *("quick-start", "authentication", "orders", "inventory", "webhooks", "errors", "limits", "idempotency"),
            *("regions", "programs", "changes", "changelog"),
        ],
    ),
    (_("For agents"), ["agents", "supervisors"]),
    (_("For operators"), ["operators", "scale", "operations/"]),
    (_("For developers"), ["architecture", "dependencies", ""]),
)
TYPES = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    **dict.fromkeys(
        ("", ".py", ".php", ".mjs", ".go", ".yaml", ".yml", ".sql", ".ini", ".conf", ".sh", ".txt"),
        "text/plain; charset=utf-8",
    ),
}

_published: dict[str, Path] = {}


def publish(name: str, path: Path) -> None:
    """Make a file of an app downloadable at `/docs/<name>`."""
    _published[name] = path


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    """Without its language and suffix: `webhooks`, `index`."""
    language: str
    title: str
    html: str
    sections: list[Section]

    @property
    def url(self) -> str:
        return f"/docs/{_in_language(self.language)}{'' if self.name == 'index' else self.name}"


@dataclass(frozen=True, slots=True, eq=False)  # one site is equal to itself alone, and so a key of caches
class Site:
    pages: dict[tuple[str, str], Page]
    """By language and name."""
    files: dict[str, Path]
    """By the address under /docs/."""

    def parts(self, language: str) -> Iterator[tuple[str, list[Page]]]:
        """The parts of the navigation with their pages: in this language, else in English."""
        best = {name: page for (lang, name), page in self.pages.items() if lang == "en"}
        best |= {name: page for (lang, name), page in self.pages.items() if lang == language}
        best.pop("index", None)
        for title, names in PARTS:
            pages = [best.pop(name) for name in names if name in best]
            for prefix in [name for name in names if name == "" or name.endswith("/")]:
                pages += [best.pop(name) for name in sorted(best) if name.startswith(prefix)]
            yield str(title), pages


def site() -> Site:
    """All pages and files, as they lie on the disk now."""
    changelog = settings.BASE_DIR / "CHANGELOG.md"
    found = [path for path in sorted(FOLDER.rglob("*")) if path.is_file() and not path.is_symlink()]
    sources = [path for path in found if not path.name.startswith(".")]
    sources += [changelog] if changelog.exists() else []
    return _read(tuple((path, path.stat().st_mtime_ns) for path in sources))


@lru_cache(maxsize=1)
def _read(sources: tuple[tuple[Path, int], ...]) -> Site:
    files = {path.relative_to(FOLDER).as_posix(): path for path, _ in sources if path.suffix in TYPES}
    pages = {}
    for path, _changed in sources:
        if path.suffix == ".md":
            page = _page(path, files)
            pages[page.language, page.name] = page
    return Site(pages, files | _published)


def _page(path: Path, files: dict[str, Path]) -> Page:
    language, name = _place(path.relative_to(settings.BASE_DIR).as_posix())
    folder = path.parent.relative_to(settings.BASE_DIR).as_posix()
    with translation.override(language):
        rendered = render(path.read_text(encoding="utf-8"), lambda address: where_to(address, folder))
    title = rendered.sections[0].heading if rendered.sections else name
    return Page(name, language, title, rendered.html, rendered.sections)


def where_to(address: str, folder: str) -> str:
    """Where an address in a page of this folder of the project leads to on the site; `#…` and others' stay."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return address
    target = normpath(f"{folder}/{parts.path}")
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    for name, path in _published.items():
        if path == settings.BASE_DIR / target:
            return f"/docs/{name}"
    if target.endswith(".md"):
        language, name = _place(target)
        return f"/docs/{_in_language(language)}{'' if name in ('index', 'README') else name}{fragment}"
    return f"/{target}{fragment}"


def _place(path: str) -> tuple[str, str]:
    """Language and name of a page, from its path in the project."""
    name = path.removesuffix(".md").removeprefix("docs/").replace("CHANGELOG", "changelog")
    language, _, rest = name.partition("/")
    return (language, rest) if rest and language in LANGUAGES else ("en", name)


def _in_language(language: str) -> str:
    return "" if language == "en" else f"{language}/"
