#!/bin/sh
# Fills a folder with Docker's engine, CLI, buildx and compose, and root folders of the base images, from Debian's mirror:
# for a Debian machine without Docker or a registry. Needs root and mmdebstrap. What is there already is kept.
#   engine.sh FOLDER
set -eu
folder=${1:?folder to fill}
mkdir -p "$folder/roots"

load() { # TARGET SUITE PACKAGES [OPTION]
    [ -e "$1" ] && return
    rm -rf "$1.new" "$1.new.tar"
    new=$1.new
    case "$1" in *.tar) new=$1.new.tar ;; esac
    nice -n 15 mmdebstrap --variant=minbase --mode=root --include="$3" ${4:-} \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$2" "$new"
    mv "$new" "$1"
}
load "$folder/engine" forky \
    docker.io,docker-cli,docker-compose,docker-buildx,iptables,nftables,iproute2,ca-certificates,tini,curl,procps
load "$folder/roots/python.tar" bookworm python3.11,python3.11-venv,python3-pip,ca-certificates,tzdata,netbase \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr
load "$folder/roots/debian.tar" trixie ca-certificates
load "$folder/roots/postgres.tar" forky postgresql-18,gosu,tzdata,locales,libnss-wrapper,xz-utils,zstd
load "$folder/roots/valkey.tar" forky valkey-server,valkey-tools,tzdata,util-linux
load "$folder/roots/caddy.tar" forky caddy,wget,ca-certificates,libcap2-bin,mailcap
