#!/usr/bin/env bash
# Builds the image, brings up the compose stack and looks at both: started on demand, not by `.ci/run`.
#
#   deploy/container/check.sh            # builds first
#   deploy/container/check.sh --built    # with the images of the last build
#
# Uses the Docker daemon of this machine, or as root starts one of its own and ends it. Where no image registry can be
# reached, stand-ins for the public images are made with debootstrap and this machine's Rust (stand-ins.sh). Without a
# daemon or Compose it says SKIPPED and looks at nothing. Takes some ten minutes, most of them the build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=$(mktemp -d)
daemon=
project=retention-check
export DOCKER_BUILDKIT=${DOCKER_BUILDKIT:-0} COMPOSE_PROJECT_NAME=$project

tell() { printf '%s\n' "$*"; }
fail() { tell "FAILED: $*" >&2; exit 1; }
compose() {
  if docker compose version >/dev/null 2>&1; then docker compose --file deploy/compose/compose.yaml "$@"
  else docker-compose --file deploy/compose/compose.yaml "$@"; fi
}
clean_up() {
  local code=$?
  docker rm --force $project-probe >/dev/null 2>&1 || true
  [ -z "${stack:-}" ] || compose down --volumes --timeout 1 >/dev/null 2>&1 || true
  if [ -n "$daemon" ]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    # The daemon leaves the namespace of `--network host` mounted, and with it this folder could not go.
    umount "$work"/exec/netns/* 2>/dev/null || true
  fi
  rm -rf "$work"
  [ "$code" -eq 0 ] || printf 'the check FAILED (exit code %s)\n' "$code" >&2
}
trap clean_up EXIT

# ---- Compose and a daemon --------------------------------------------------------------------------------------------
if ! compose version >/dev/null 2>&1; then
  tell "SKIPPED: neither \`docker compose\` nor \`docker-compose\` runs here (Debian: apt-get install docker-compose)"
  exit 0
fi
if ! docker info >/dev/null 2>&1; then
  if [ "$(id -u)" -ne 0 ] || ! command -v dockerd >/dev/null; then
    tell "SKIPPED: no Docker daemon answers, and only root with dockerd can start one (Debian: apt-get install docker.io)"
    exit 0
  fi
  export DOCKER_HOST=unix://$work/docker.sock
  dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" \
    >"$work/dockerd.log" 2>&1 &
  daemon=$!
  for _ in $(seq 30); do docker info >/dev/null 2>&1 && break || sleep 1; done
  if ! docker info >/dev/null 2>&1; then
    tell "SKIPPED: dockerd does not run here:"
    tail -5 "$work/dockerd.log"
    exit 0
  fi
fi
tell "daemon: $(docker version --format '{{.Server.Version}}'), storage $(docker info --format '{{.Driver}}')"

# ---- Images ----------------------------------------------------------------------------------------------------------
if docker image inspect debian:bookworm-slim >/dev/null 2>&1 || timeout 60 docker pull --quiet debian:bookworm-slim >/dev/null 2>&1; then
  tell "base images: the public ones"
else
  tell "base images: stand-ins, as no registry answers"
  source deploy/container/stand-ins.sh
fi
[ "${1:-}" = --built ] || compose build >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; fail "the images do not build"; }
image=retention-worker:$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
tell "image: $(docker image inspect "$image" --format 'user {{.Config.User}}, {{.Size}} bytes')"
[ "$(docker image inspect "$image" --format '{{.Config.User}}')" = 65532:65532 ] || fail "it runs as somebody else"
docker run --rm --read-only --cap-drop ALL --entrypoint /bin/bash "$image" -c '
  [ "$(id -u)" = 65532 ] && [ -s /etc/ssl/certs/ca-certificates.crt ] && ! touch /tmp/x 2>/dev/null' || fail "user, certificates or root"
! docker run --rm --entrypoint /usr/local/bin/healthcheck "$image" >/dev/null 2>&1 || fail "healthy without a worker"
tell "image: not root, certificates, a read-only root, a health check that fails without a worker"

# ---- The stack -------------------------------------------------------------------------------------------------------
stack=up
compose up --detach >"$work/up.log" 2>&1 || { tail -30 "$work/up.log"; fail "the stack does not come up"; }
worker=$(compose ps --quiet worker) database=$(compose ps --quiet database) prometheus=$(compose ps --quiet prometheus)
sql() { docker exec --interactive "$database" psql --username postgres --dbname identity --no-psqlrc --quiet --tuples-only --no-align --command "$1"; }
await() { # what, command…: polls a condition, two minutes at most
  local what=$1
  shift
  for _ in $(seq 120); do "$@" && { tell "stack: $what"; return; } || sleep 1; done
  docker logs "$worker" 2>&1 | tail -20
  fail "it has not come to this: $what"
}
drained() { [ "$(docker logs "$worker" 2>&1 | grep -c 'job completed')" -ge 1 ]; }
healthy() { [ "$(docker inspect "$worker" --format '{{.State.Health.Status}}')" = healthy ]; }
scraped() { docker exec "$prometheus" promtool query instant http://localhost:9090 'session_retention:last_success_timestamp_seconds' | grep -q 'job="session-retention"'; }
await "the first run is over" drained
overdue=$(sql "SELECT count(*) FROM identity.sign_in_confirmation_requests WHERE created_at < now() - interval '30 days 5 minutes'")
tell "stack: of 60000 requests $(sql 'SELECT count(*) FROM identity.sign_in_confirmation_requests') are left, $overdue of them overdue"
[ "$overdue" = 0 ] || fail "rows are left that are due"
await "healthy, says the health check" healthy
await "Prometheus has a success from the rules" scraped
[ -z "$(docker exec "$prometheus" promtool query instant http://localhost:9090 'ALERTS{alertstate="firing"}')" ] || fail "an alert fires"
tell "stack: no alert fires"
began=$SECONDS
compose stop worker >/dev/null 2>&1
tell "stack: stopped while idle in $((SECONDS - began)) s, exit code $(docker inspect "$worker" --format '{{.State.ExitCode}}')"
[ "$(docker inspect "$worker" --format '{{.State.ExitCode}}')" = 0 ] || fail "a stop is no failure"

# ---- Process 1 and its signals ---------------------------------------------------------------------------------------
due() { sql "SELECT count(*) FROM identity.sign_in_confirmation_requests WHERE user_agent = 'slow'"; }
# A batch of 500 rows that takes ten seconds.
sql "CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.02); RETURN OLD; END';
  CREATE TRIGGER slow BEFORE DELETE ON identity.sign_in_confirmation_requests FOR EACH ROW EXECUTE FUNCTION public.slow()"
# In the second attempt of the batch: the first one, which reckons with nobody, is undone after 0.8 s.
deleting() { [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'session_retention' AND state = 'active' AND query LIKE '%DELETE FROM%' AND query_start < clock_timestamp() - interval '1 second'")" -ge 1 ]; }
retrying() { docker logs $project-probe 2>&1 | grep -q 'database does not answer'; }
probe() { # variables…: a worker of its own, as process 1, with a read-only root and no capability
  local url=postgres://session_retention:only-for-this-stack@database:5432/identity
  docker run --detach --name $project-probe --network ${project}_default --read-only --cap-drop ALL \
    --security-opt no-new-privileges --env DATABASE_URL=$url --env SESSION_RETENTION_NIGHT_WINDOW_UTC=always \
    --env SESSION_RETENTION_INTERVAL=1d "$@" "$image" >/dev/null
}
signalled() { # what, most seconds, rows that must be left, signals
  local what=$1 most=$2 left=$3 began code
  shift 3
  began=$(date +%s%3N)
  for signal; do docker kill --signal "$signal" $project-probe >/dev/null; done
  code=$(timeout 60 docker wait $project-probe) || fail "$what: it has not ended in a minute"
  took=$(($(date +%s%3N) - began))
  [ "$code" = 0 ] && [ "$took" -le $((most * 1000)) ] && [ "$left" = any -o "$(due)" = "$left" ] ||
    fail "$what: exit code $code after $took ms, $(due) rows left; $(docker logs $project-probe 2>&1 | tail -5)"
  tell "signal: $what: exit code 0 after $took ms, rows left: $(due)"
  docker rm $project-probe >/dev/null
}
refill() {
  sql "INSERT INTO identity.sign_in_confirmation_requests (id, phone_number, code_hash, status, user_agent, created_at, expires_at)
    SELECT gen_random_uuid(), '+15550000000', '\\x00', 'Expired', 'slow', now() - interval '40 days', now() FROM generate_series(1, 500 - $(due))"
}
refill
probe
await "a batch is under way" deleting
signalled "SIGTERM in mid-batch, within the grace period" 25 0 TERM
refill
probe --env SESSION_RETENTION_SHUTDOWN_GRACE=1s
await "a batch is under way" deleting
signalled "SIGTERM in mid-batch, grace of a second" 6 500 TERM
refill
probe
await "a batch is under way" deleting
signalled "SIGTERM twice in mid-batch" 5 500 TERM TERM
refill
probe
await "a batch is under way" deleting
docker pause "$database" >/dev/null
began=$(date +%s%3N)
docker kill --signal TERM $project-probe >/dev/null
code=$(timeout 60 docker wait $project-probe) || fail "a database that stopped answering holds it up"
docker unpause "$database" >/dev/null
tell "signal: SIGTERM with a database that stopped answering: exit code $code after $(($(date +%s%3N) - began)) ms"
[ "$code" = 0 ] || fail "exit code $code"
docker rm $project-probe >/dev/null
compose stop database >/dev/null 2>&1
probe
await "it retries a database that is away" retrying
began=$(date +%s%3N)
docker kill --signal TERM $project-probe >/dev/null
code=$(timeout 60 docker wait $project-probe) || fail "a database that is away holds it up"
tell "signal: SIGTERM while the database is away: exit code $code after $(($(date +%s%3N) - began)) ms"
[ "$code" = 0 ] || fail "exit code $code"
tell "passed"
