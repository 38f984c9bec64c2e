"""The service's own source files."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("agents", "orders", "inventory", "webhooks", "codservice")


def files_of(room: str) -> list[Path]:
    return [path for path in sorted((ROOT / room).rglob("*.py")) if "migrations" not in path.parts]
