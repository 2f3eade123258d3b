# Stand-ins for the public images, for machines that reach no image registry: sourced by check.sh, which has a daemon and
# a folder $work. They are made of Debian's packages and this machine's Rust, and go by names of their own.
# shellcheck shell=bash disable=SC2154

[ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null || {
  tell "SKIPPED: stand-ins take root and debootstrap (Debian: apt-get install debootstrap)"
  exit 0
}
# The builder carries the crates of the lock file: another lock file, another builder.
lock=$(sha256sum Cargo.lock | cut -c 1-12)
export BASE_IMAGE=local/debian:bookworm BUILDER_IMAGE=local/rust:$lock
export POSTGRES_IMAGE=local/postgres:15 PROMETHEUS_IMAGE=local/prometheus:debian

if ! docker image inspect $BASE_IMAGE >/dev/null 2>&1; then
  mirror=$(awk '/^URIs:/{print $2; exit} /^deb /{for (i = 2; i <= NF; i++) if ($i ~ /^http/) {print $i; exit}}' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null)
  debootstrap --variant=minbase bookworm "$work/system" ${mirror:+"$mirror"} >"$work/debootstrap.log"
  rm -rf "$work"/system/var/cache/apt/archives/*.deb
  tar -C "$work/system" -c . | docker import - $BASE_IMAGE >/dev/null
fi

# The network of this machine, with whatever it takes to reach Debian's archive.
package_image() { # image, packages, end of the Dockerfile
  docker image inspect "$1" >/dev/null 2>&1 && return
  mkdir -p "$work/context"
  printf 'FROM %s\nRUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends %s\n%s\n' \
    $BASE_IMAGE "$2" "$3" >"$work/context/Dockerfile"
  docker build --network host --tag "$1" "$work/context" >"$work/image.log" 2>&1 || { tail -20 "$work/image.log"; fail "$1"; }
}

if ! docker image inspect $BUILDER_IMAGE >/dev/null 2>&1; then
  toolchain=$(rustc --print sysroot)
  package_image local/cc "gcc libc6-dev ca-certificates" ""
  mkdir -p "$work/context/toolchain/lib/rustlib" "$work/context/registry"
  cp -a "$toolchain/bin" "$work/context/toolchain/"
  cp -a "$toolchain"/lib/*.so* "$work/context/toolchain/lib/"
  cp -a "$toolchain"/lib/rustlib/*-linux-gnu "$work/context/toolchain/lib/rustlib/"
  # The crates of the lock file, so that the build needs no network.
  cargo fetch --locked --quiet
  cp -a "${CARGO_HOME:-$HOME/.cargo}"/registry/{index,cache} "$work/context/registry/"
  cat >"$work/context/Dockerfile" <<'DOCKERFILE'
FROM local/cc
COPY toolchain /usr/local/toolchain
COPY registry /usr/local/cargo/registry
ENV PATH=/usr/local/toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true
DOCKERFILE
  docker build --tag $BUILDER_IMAGE "$work/context" >"$work/image.log" 2>&1 || { tail -20 "$work/image.log"; fail $BUILDER_IMAGE; }
  rm -rf "$work/context"
fi

# As the public image: POSTGRES_DB and POSTGRES_PASSWORD, data in /var/lib/postgresql/data.
mkdir -p "$work/context"
cat >"$work/context/entrypoint" <<'SCRIPT'
#!/bin/bash
set -euo pipefail
[ "$1" = postgres ] || exec "$@"
data=/var/lib/postgresql/data
as() { setpriv --reuid postgres --regid postgres --clear-groups env PATH=/usr/lib/postgresql/15/bin:$PATH "$@"; }
chown postgres:postgres $data && chmod 700 $data
install --owner postgres --mode 600 /dev/null /tmp/password
printf %s "$POSTGRES_PASSWORD" >/tmp/password
as initdb --pgdata $data --auth-local trust --auth-host scram-sha-256 --pwfile /tmp/password >/dev/null
echo 'host all all all scram-sha-256' >>$data/pg_hba.conf
as pg_ctl --pgdata $data --options "-c listen_addresses=''" --wait start >/dev/null
as createdb "$POSTGRES_DB"
as pg_ctl --pgdata $data --mode fast --wait stop >/dev/null
exec setpriv --reuid postgres --regid postgres --clear-groups /usr/lib/postgresql/15/bin/postgres -D $data -c listen_addresses='*'
SCRIPT
chmod +x "$work/context/entrypoint"
package_image $POSTGRES_IMAGE "postgresql postgresql-client" 'COPY entrypoint /entrypoint
ENTRYPOINT ["/entrypoint"]
CMD ["postgres"]'
package_image $PROMETHEUS_IMAGE prometheus 'ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]'
