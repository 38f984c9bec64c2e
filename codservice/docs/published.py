"""Files of apps that may be downloaded under /docs/, by their address there. Apps add them in `ready`."""

from pathlib import Path

FILES: dict[str, Path] = {}
