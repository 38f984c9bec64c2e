#!/bin/bash
# Makes the database of a new volume, runs its scripts once, and then the server. Always runs as postgres.
set -euo pipefail
[ "${1:-}" = postgres ] || exec "$@"
if [ "$(id -u)" = 0 ]; then
    install -d -o postgres -g postgres -m 700 "$PGDATA"
    exec gosu postgres "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    mkdir -p "$PGDATA"
    chmod 700 "$PGDATA"
    # shellcheck disable=SC2086 # several arguments
    initdb --pgdata="$PGDATA" --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust \
        --auth-host=scram-sha-256 ${POSTGRES_INITDB_ARGS:-}
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
    pg_ctl --pgdata="$PGDATA" --wait --options="-c listen_addresses=" start
    for script in /docker-entrypoint-initdb.d/*.sh; do
        [ ! -r "$script" ] || POSTGRES_USER=postgres bash "$script"
    done
    pg_ctl --pgdata="$PGDATA" --wait --mode=fast stop
fi
exec "$@"
