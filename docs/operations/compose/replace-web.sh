#!/bin/sh
# Replaces the containers of web by new ones, of the image that is built now, while requests go on: first as many more are
# started and answer, then the old ones are told to end, one by one.
set -eu
old=$(docker compose ps --quiet web)
count=$(echo "$old" | wc -l)
docker compose up --detach --no-deps --no-recreate --scale web=$((2 * count)) web
for container in $(docker compose ps --quiet web); do
    case "$old" in *"$container"*) continue ;; esac
    tries=120
    until [ "$(docker inspect --format '{{.State.Health.Status}}' "$container")" = healthy ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "$container does not answer; the old ones stay: docker logs $container" >&2; exit 1; }
        sleep 1
    done
done
for container in $old; do
    docker stop "$container" > /dev/null
    docker rm "$container" > /dev/null
done
