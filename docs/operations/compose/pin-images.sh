#!/bin/sh
# Writes the images that compose.yaml and the Dockerfile take from others into ./.env, by digest, so that exactly what
# you have reviewed runs until you run this again. Without it, tags lead to the newest. Needs a registry and docker's
# buildx.
set -eu
images='PYTHON_IMAGE=python:3.11-slim-bookworm DEBIAN_IMAGE=debian:trixie-slim POSTGRES_IMAGE=postgres:18
    VALKEY_IMAGE=valkey/valkey:9 CADDY_IMAGE=caddy:2'
touch .env
new=$(mktemp .env.XXXXXX)
trap 'rm -f "$new"' EXIT
# awk ends a last line that an editor left without an end.
awk '!/^(PYTHON|DEBIAN|POSTGRES|VALKEY|CADDY)_IMAGE=/' .env > "$new"
for each in $images; do
    digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "${each#*=}")
    case "$digest" in
        sha256:*) echo "$each@$digest" | tee -a "$new" ;;
        *) echo "${each#*=}: the registry gave no digest" >&2; exit 1 ;;
    esac
done
chmod --reference=.env "$new" 2> /dev/null || chmod 600 "$new"
mv "$new" .env
