"""compose.yaml under a container engine, tried as operators use it: `make test-containers`.

With a Docker that answers, that one is used, and its registries. Without one, on Debian and as root, an engine and base
images are made of Debian's packages (`engine.sh`, about 3 GB below CONTAINERS_DIR), and run in a network of their own
that has no way out but during builds. What of it differs from the official images: sources and versions of the
packages, the entrypoints of PostgreSQL and Valkey (`base/`), GNU's wget where the official caddy has BusyBox's, and
this machine's authorities in pip's settings.
"""
