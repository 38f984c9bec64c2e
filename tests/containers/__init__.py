"""Tries compose.yaml under a container engine, as operators use it: `make test-containers`.

A Docker that answers is used, with its registries. Otherwise, on Debian and as root, an engine and base images are made
from Debian's packages (`engine.sh`, about 3 GB below CONTAINERS_DIR). They run in a network of their own, which has no
way out except during builds. They differ from the official images in sources and versions of packages, the entrypoints
of PostgreSQL and Valkey (`base/`), GNU's wget instead of BusyBox's in caddy, and this machine's authorities in pip's
settings.
"""
