"""The service's own source files."""

from pathlib import Path

from .processes import CHECKOUT

ROOMS = ("agents", "orders", "inventory", "webhooks", "codservice")


def files_of(room: str) -> list[Path]:
    return [path for path in sorted((CHECKOUT / room).rglob("*.py")) if "migrations" not in path.parts]
