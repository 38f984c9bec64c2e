"""Files of apps that may be downloaded under /docs/, by their address there. Apps add theirs when they are ready."""

from pathlib import Path

FILES: dict[str, Path] = {}
