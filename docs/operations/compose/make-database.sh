#!/bin/bash
# Runs once, when PostgreSQL's volume is new: the service's role, which is no superuser, and its database.
set -euo pipefail
# psql reads the password itself: its arguments can be seen in the list of processes.
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" <<'SQL'
\set password `cat /run/secrets/database_password`
CREATE ROLE codservice LOGIN PASSWORD :'password';
CREATE DATABASE codservice OWNER codservice;
\include /etc/codservice/role.sql
SQL
