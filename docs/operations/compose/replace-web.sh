#!/bin/sh
# Replaces web's containers by new ones of the current image, while requests go on. It starts as many new ones, waits
# until they answer, then stops the old ones one by one. If the new ones do not answer, it removes them and the old ones
# stay. An old one that has died counts too: compose would start it again in place of a new one.
# What `docker compose run web` has started is none of them.
set -eu
webs() {
    all=$(docker compose ps --all --quiet web)
    for container in $all; do
        one_off=$(docker inspect --format '{{index .Config.Labels "com.docker.compose.oneoff"}}' "$container") || continue
        [ "$one_off" = True ] || echo "$container"
    done
}
old=$(webs)
count=$(echo "$old" | wc -l)
new() { webs | grep -vxF "$old" || :; }
give_up() {
    for container in $(new); do
        docker logs --tail 20 "$container" >&2 || :
        docker rm --force "$container" > /dev/null
    done
    echo 'The old containers of web stay.' >&2
}
trap give_up EXIT
trap 'exit 1' HUP INT TERM
docker compose up --detach --no-deps --no-recreate --scale web=$((2 * count)) web
for container in $(new); do
    tries=120
    until [ "$(docker inspect --format '{{.State.Health.Status}}' "$container")" = healthy ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "$container does not answer." >&2; exit 1; }
        sleep 1
    done
done
trap - EXIT
for container in $old; do
    docker stop "$container" > /dev/null
    docker rm "$container" > /dev/null
done
