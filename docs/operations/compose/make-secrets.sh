#!/bin/sh
# Makes those files of ./secrets that compose.yaml names and that are missing; keep a copy with your backups. Without
# encryption_keys the webhooks' signing secrets cannot be read. The folder ./authorities is for WEBHOOK_CA_FILE.
set -eu
command -v openssl > /dev/null || { echo 'openssl is missing. Install it to make the secrets.' >&2; exit 1; }
umask 022 # the containers' users read them; the folder is closed to others
mkdir -p secrets authorities
chmod 700 secrets
cd secrets

keep() { # NAME: stores stdin as its value, unless there is one already
    if [ -s "$1" ]; then cat > /dev/null; else tr -d '\n' > "$1"; fi
}
openssl rand -hex 32 | keep secret_key
openssl rand -base64 32 | tr '+/' '-_' | keep encryption_keys
openssl rand -hex 24 | keep postgres_password
openssl rand -hex 24 | keep database_password
openssl rand -hex 24 | keep redis_password

password=$(cat database_password)
echo "postgresql://codservice:$password@pgbouncer:6432/codservice" | keep database_url
echo "postgresql://codservice:$password@database:5432/codservice" | keep database_url_direct
echo "\"codservice\" \"$password\"" | keep pgbouncer_users

password=$(cat redis_password)
echo "redis://:$password@redis:6379/0" | keep redis_url
if [ ! -s redis_config ]; then
    printf '%s\n' "requirepass $password" 'save ""' 'appendonly no' 'maxmemory 256mb' 'maxmemory-policy volatile-ttl' \
        > redis_config
fi
