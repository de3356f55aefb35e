#!/usr/bin/env bash
# A real etcd and kube-apiserver (and, if asked, kube-scheduler) on loopback, with RBAC and static
# tokens, all state under one folder.
#
#   apiserver.sh start DIR PORT ETCD_PORT [SCHEDULER_PORT]
#   apiserver.sh stop DIR                       everything is dead when it returns; state is kept
#   apiserver.sh stop-apiserver DIR [SIGNAL]    KILL unless told otherwise; etcd stays
#   apiserver.sh start-apiserver DIR            same port, same etcd
#   apiserver.sh restart-apiserver DIR [SIGNAL]
#   apiserver.sh compact DIR [REVISION]         etcd forgets what is older (default: than now)
#   apiserver.sh status DIR                     name, process id and resident KiB of each
#
# Programs are taken from $KUBEBUILDER_ASSETS, else where assets.sh puts them.
# OWNER_PID=N with start: everything is stopped when process N is gone (a test that was killed).
# ETCD_EXTRA, APISERVER_EXTRA, SCHEDULER_EXTRA: more flags, split at blanks.
# DIR/{admin,sidecar,scheduler}.kubeconfig hold the tokens {admin,sidecar,scheduler}-token: admin
# is in system:masters, sidecar has no rights until it is given some. The CA is DIR/pki/ca.crt.
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
die() { printf 'apiserver.sh: %s\n' "$*" >&2; exit 1; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }

[ $# -ge 2 ] || usage
action=$1
mkdir -p "$2/pki"
dir=$(cd "$2" && pwd)
shift 2
bin=${KUBEBUILDER_ASSETS:-${STEPCAST_ASSETS:-${HOME:-/root}/.cache/stepcast/assets}}
t0=$(now_ms)

# born PID: when the process began, in clock ticks since boot; nothing for one that is dead. A
# zombie counts as dead once its last thread is gone: until then its ports are still taken.
born() {
  local threads=("/proc/$1/task"/*)
  awk -v threads="${#threads[@]}" '{ sub(/.*\) /, ""); if ($1 !~ /[ZX]/ || threads > 1) print $20 }' \
    "/proc/$1/stat" 2> /dev/null || true
}

# pid NAME: its process id if it runs, and not one that another process was given since.
pid() {
  local p began
  read -r p began 2> /dev/null < "$dir/$1.pid" || return 1
  [ -n "$began" ] && [ "$(born "$p")" = "$began" ] || return 1
  echo "$p"
}

# spawn NAME COMMAND...: in the background, holding none of the caller's pipes open.
spawn() {
  local name=$1; shift
  "$@" < /dev/null >> "$dir/$name.log" 2>&1 &
  echo "$! $(born $!)" > "$dir/$name.pid"
  disown
}

# end NAME SIGNAL: sends it, waits, and kills what is still there after 10 s.
end() {
  local p i
  if p=$(pid "$1"); then
    kill -s "$2" "$p" 2>/dev/null || true
    for ((i = 0; i < 1000; i++)); do
      pid "$1" > /dev/null || break
      if ((i == 500)); then kill -s KILL "$p" 2>/dev/null || true; fi
      sleep 0.02
    done
    if pid "$1" > /dev/null; then die "$1 (process $p) does not end"; fi
  fi
  rm -f "$dir/$1.pid"
}

# await NAME CURL-ARGUMENTS...: until the address answers, for as long as the process lives.
await() {
  local name=$1 i; shift
  for ((i = 0; i < 1200; i++)); do
    if ! pid "$name" > /dev/null; then break; fi
    if curl -fs -m 5 -o /dev/null "$@"; then
      echo "$name ready after $(($(now_ms) - t0)) ms"
      return
    fi
    sleep 0.05
  done
  tail -n 8 "$dir/$name.log" >&2
  die "$name did not become ready: see $dir/$name.log"
}

ports() {
  [ -f "$dir/ports" ] || die "$dir was never started"
  read -r port etcd_port scheduler_port < "$dir/ports"
  etcd=http://127.0.0.1:$etcd_port
}

# One CA, one serving certificate, one service-account key.
pki() {
  local d=$dir/pki
  [ ! -f "$d/done" ] || return 0
  openssl ecparam -name prime256v1 -genkey -noout -out "$d/ca.key"
  openssl req -x509 -new -key "$d/ca.key" -days 30 -subj /CN=test-ca -out "$d/ca.crt"
  openssl ecparam -name prime256v1 -genkey -noout -out "$d/server.key"
  openssl req -new -key "$d/server.key" -subj /CN=kube-apiserver -out "$d/server.csr"
  echo 'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc,IP:10.0.0.1' > "$d/server.ext"
  openssl x509 -req -in "$d/server.csr" -CA "$d/ca.crt" -CAkey "$d/ca.key" -CAcreateserial -days 30 \
    -extfile "$d/server.ext" -out "$d/server.crt" 2> /dev/null
  openssl ecparam -name prime256v1 -genkey -noout -out "$d/sa.key"
  touch "$d/done"
}

credentials() {
  local u
  cat > "$dir/tokens.csv" <<'CSV'
admin-token,admin,admin-uid,"system:masters"
sidecar-token,sidecar,sidecar-uid,""
scheduler-token,system:kube-scheduler,scheduler-uid,""
CSV
  for u in admin sidecar scheduler; do
    cat > "$dir/$u.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:$port", certificate-authority: "$dir/pki/ca.crt"}}]
users: [{name: u, user: {token: $u-token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
YAML
  done
}

start_etcd() {
  pid etcd > /dev/null && return
  # shellcheck disable=SC2086 # more flags, split at blanks
  spawn etcd "$bin/etcd" --data-dir="$dir/etcd" --listen-client-urls="$etcd" --advertise-client-urls="$etcd" \
    --listen-peer-urls=http://127.0.0.1:0 --unsafe-no-fsync --log-level=warn ${ETCD_EXTRA:-}
  await etcd "$etcd/health"
}

# Nothing compacts etcd but `compact`, and no controller runs here that would take the not-ready
# taint off a new node, so the plugin that puts it on is off (it is on in a real cluster).
start_apiserver() {
  pid apiserver > /dev/null && return
  # shellcheck disable=SC2086 # more flags, split at blanks
  spawn apiserver "$bin/kube-apiserver" --etcd-servers="$etcd" --etcd-compaction-interval=0 \
    --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port="$port" \
    --tls-cert-file="$dir/pki/server.crt" --tls-private-key-file="$dir/pki/server.key" \
    --client-ca-file="$dir/pki/ca.crt" --token-auth-file="$dir/tokens.csv" \
    --authorization-mode=RBAC --anonymous-auth=false \
    --service-account-issuer="https://127.0.0.1:$port" \
    --service-account-key-file="$dir/pki/sa.key" --service-account-signing-key-file="$dir/pki/sa.key" \
    --service-cluster-ip-range=10.0.0.0/24 --endpoint-reconciler-type=none \
    --disable-admission-plugins=ServiceAccount,TaintNodesByCondition ${APISERVER_EXTRA:-}
  await apiserver --cacert "$dir/pki/ca.crt" -H 'Authorization: Bearer admin-token' "https://127.0.0.1:$port/readyz"
}

start_scheduler() {
  [ -n "$scheduler_port" ] || return 0
  pid scheduler > /dev/null && return
  local k=$dir/scheduler.kubeconfig
  # shellcheck disable=SC2086 # more flags, split at blanks
  spawn scheduler "$bin/kube-scheduler" --kubeconfig="$k" --authentication-kubeconfig="$k" \
    --authorization-kubeconfig="$k" --bind-address=127.0.0.1 --secure-port="$scheduler_port" \
    --leader-elect=false ${SCHEDULER_EXTRA:-}
  await scheduler -k "https://127.0.0.1:$scheduler_port/healthz"
}

stop_all() {
  local name
  for name in owner scheduler apiserver etcd; do end "$name" KILL; done
}

start_all() {
  [ $# -ge 2 ] || usage
  echo "$1 $2 ${3:-}" > "$dir/ports"
  ports
  trap 'stop_all' EXIT # a start that fails leaves nothing behind
  pki
  credentials
  start_etcd
  start_apiserver
  start_scheduler
  if [ -n "${OWNER_PID:-}" ]; then spawn owner "$BASH" "$0" watch-owner "$dir" "$OWNER_PID"; fi
  trap - EXIT
}

# rpc PATH BODY: etcd's own interface, as JSON.
rpc() { curl -sS -m 60 -d "$2" "$etcd/v3/kv/$1"; }

compact() {
  local revision=${1:-} answer
  if [ -z "$revision" ]; then
    revision=$(rpc range '{"key":"AA=="}' | sed -n 's/.*"revision":"\([0-9]*\)".*/\1/p')
    [ -n "$revision" ] || die 'etcd does not answer'
  fi
  answer=$(rpc compaction "{\"revision\":\"$revision\",\"physical\":true}")
  case $answer in
    *'has been compacted'*) ;; # to this revision or a later one: nothing to do
    *'"error"'* | *'"code"'*) die "etcd: $answer" ;;
  esac
  echo "compacted to revision $revision"
}

status() {
  local name p
  for name in etcd apiserver scheduler; do
    if p=$(pid "$name"); then echo "$name $p $(awk '/^VmRSS/ { print $2 }' "/proc/$p/status")"; fi
  done
}

case $action in
  start) start_all "$@" ;;
  stop) stop_all ;;
  stop-apiserver) end apiserver "${1:-KILL}" ;;
  start-apiserver) ports; start_apiserver ;;
  restart-apiserver) ports; end apiserver "${1:-KILL}"; start_apiserver ;;
  compact) ports; compact "$@" ;;
  status) status ;;
  watch-owner)
    while kill -0 "$1" 2> /dev/null; do sleep 0.5; done
    rm -f "$dir/owner.pid" # so that it does not end itself first
    stop_all
    ;;
  *) usage ;;
esac
