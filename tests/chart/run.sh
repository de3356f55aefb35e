#!/usr/bin/env bash
# The chart, the manifests made from it, its alerts and the scheduler's configuration, held against
# the real programs: helm, promtool, kube-apiserver, kube-scheduler.
#
#   run.sh [PROGRAM]     check everything. With PROGRAM, a built stepcast, also that the chart's flags
#                        are its own, that the chart's rights are enough for it, and (where grpcio
#                        and Prometheus are there) that every panel shows something
#   run.sh --write       make deploy/manifests anew from the chart
#
# What cannot be had is said, loudly, and its checks are not run: a registry that is down must not
# be taken for a broken chart. PNG=DIR draws the dashboards there (needs matplotlib).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
chart=$root/charts/stepcast
manifests=$root/deploy/manifests
assets=${STEPCAST_ASSETS:-${HOME:-/root}/.cache/stepcast/assets}
write=false
program=
case ${1:-} in
  --write) write=true ;;
  -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  '') ;;
  *) program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1"); [ -x "$program" ] || { echo "run.sh: no program at $1" >&2; exit 2; } ;;
esac

step() { printf '\n-- chart: %s (%s s)\n' "$*" "$SECONDS"; }
die() { printf 'run.sh: %s\n' "$*" >&2; exit 1; }
skip() { printf '\n!! NOT RUN, no %s: %s\n' "$1" "$2"; skipped+=" $1"; }
skipped=
# have PART WHAT: whether the part of the assets is there, after it was fetched if need be.
have() {
  local programs=$1 p missing=
  case $1 in
    kube) programs='etcd kube-apiserver kube-scheduler kubectl' ;;
    prometheus) programs='prometheus promtool' ;;
    python) programs=python/bin/python ;;
  esac
  for p in $programs; do [ -x "$assets/$p" ] || missing=1; done
  [ -n "$missing" ] || return 0
  bash "$root/tests/tools/assets.sh" "$1" || bash "$root/tests/tools/assets.sh" "$1" || { skip "$1" "$2"; return 1; }
}
free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# until SECONDS WHAT COMMAND...: until it succeeds.
until_true() {
  local end=$((SECONDS + $1)) what=$2; shift 2
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || die "waited in vain for $what"
    sleep 0.2
  done
}

tmp=$(mktemp -d)
pids=
cleanup() {
  local p
  for p in $pids; do kill "$p" 2> /dev/null || true; done
  if [ -d "$tmp/kube" ]; then bash "$root/tests/tools/apiserver.sh" stop "$tmp/kube" || true; fi
  rm -rf "$tmp"
}
trap cleanup EXIT
export HELM_CACHE_HOME=$tmp/helm HELM_CONFIG_HOME=$tmp/helm HELM_DATA_HOME=$tmp/helm

have helm 'everything about the chart' || exit 0
helm=$assets/helm

# A Python with PyYAML: the system's, or one of our own.
python=python3
if ! $python -c 'import yaml' 2> /dev/null; then
  python=$assets/chart-python/bin/python
  if ! "$python" -c 'import yaml' 2> /dev/null; then
    if ! { python3 -m venv "$assets/chart-python" && "$assets/chart-python/bin/pip" install -q --disable-pip-version-check pyyaml; }; then
      skip PyYAML 'everything about the chart'
      exit 0
    fi
  fi
fi

# --- Manifests -------------------------------------------------------------

# Rendered as for a release `stepcast` in the namespace `stepcast`; what only helm has a use for is
# left out.
render_manifests() {
  local out=$1
  local -a plain=(sed -e '/helm.sh\/chart:/d' -e '/managed-by: Helm/d' -e '/^  annotations:$/{N;/resource-policy/d}')
  mkdir -p "$out"
  {
    cat <<'YAML'
# Made from charts/stepcast by `tests/chart/run.sh --write`: change it there.
# The sidecar alone. Its image is in no registry yet: build deploy/Dockerfile
# and put the name of yours in place of `stepcast:0.1.0`.
apiVersion: v1
kind: Namespace
metadata:
  name: stepcast
  labels:
    pod-security.kubernetes.io/enforce: restricted
YAML
    "$helm" template stepcast "$chart" -n stepcast --kube-version 1.30.0 | "${plain[@]}"
  } > "$out/stepcast.yaml"
  {
    cat <<'YAML'
# Made from charts/stepcast by `tests/chart/run.sh --write`: change it there.
# What the Prometheus operator and Grafana's sidecar pick up; beside stepcast.yaml.
YAML
    "$helm" template stepcast "$chart" -n stepcast --kube-version 1.30.0 --set serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true \
      -s templates/servicemonitor.yaml -s templates/prometheusrule.yaml -s templates/dashboards.yaml | "${plain[@]}"
  } > "$out/monitoring.yaml"
}

if $write; then
  render_manifests "$manifests"
  echo "written: $manifests"
  exit 0
fi

step 'lint and render'
sets="$here/values/minimal.yaml $here/values/everything.yaml $here/values/replicas.yaml"
"$helm" lint --strict --quiet "$chart"
"$helm" template stepcast "$chart" -n chart > "$tmp/default.yaml"
for values in $sets; do
  "$helm" lint --strict --quiet "$chart" -f "$values"
  "$helm" template stepcast "$chart" -n chart -f "$values" > "$tmp/$(basename "$values")"
done
"$helm" package "$chart" -d "$tmp" > /dev/null

step 'what is rendered'
HELM=$helm STEPCAST=$program "$python" "$here/test_chart.py"
[ -n "$program" ] || skip PROGRAM "the chart's flags, its rights, the panels"

step 'manifests are current'
render_manifests "$tmp/manifests"
diff -ru "$manifests" "$tmp/manifests" || die 'deploy/manifests is not what the chart renders: tests/chart/run.sh --write'

if have prometheus 'the alerts'; then
  step 'alerts'
  "$assets/promtool" check rules "$chart/files/alerts.yaml"
  "$assets/promtool" test rules "$here/alerts_test.yaml"
fi

# --- A live API server -----------------------------------------------------

if have kube 'the chart on a live API server, the configuration of kube-scheduler'; then
  step 'a live API server'
  kube=$tmp/kube
  mkdir -p "$kube"
  extender=$(free_port)
  # The scheduler's configuration as it stands, but for its two addresses.
  sed -e "s|STEPCAST_ADDRESS:9465|127.0.0.1:$extender|" -e "s|/etc/kubernetes/scheduler.conf|$kube/scheduler.kubeconfig|" \
    "$root/deploy/kube-scheduler/config.yaml" > "$kube/scheduler.yaml"
  KUBEBUILDER_ASSETS=$assets OWNER_PID=$$ SCHEDULER_EXTRA="--config=$kube/scheduler.yaml" \
    bash "$root/tests/tools/apiserver.sh" start "$kube" "$(free_port)" "$(free_port)" "$(free_port)"
  export KUBECONFIG=$kube/admin.kubeconfig
  kubectl=$assets/kubectl
  until_true 20 'the default namespace' "$kubectl" get namespace default
  # As strict as a cluster can be: the pods must pass.
  "$kubectl" create namespace chart
  "$kubectl" label namespace chart pod-security.kubernetes.io/enforce=restricted > /dev/null
  "$kubectl" apply -f "$here/crds"
  "$kubectl" wait --for=condition=Established --timeout=30s -f "$here/crds" > /dev/null

  step 'the API server takes every object as it is'
  for rendered in "$tmp"/{default,minimal,everything,replicas}.yaml; do
    "$kubectl" apply --dry-run=server --validate=strict -f "$rendered" > "$tmp/applied" 2>&1 || { cat "$tmp/applied"; die "$rendered"; }
    # A warning is a field on its way out, or a pod that `restricted` would refuse.
    if grep -i warning "$tmp/applied"; then die "warnings about $rendered"; fi
    # Deployments are not held to the pod security standard, their pods are.
    "$python" - "$rendered" > "$tmp/pod.json" <<'PY'
import json, sys, yaml
(deployment,) = (o for o in yaml.safe_load_all(open(sys.argv[1])) if o and o["kind"] == "Deployment")
template = deployment["spec"]["template"]
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "chart", **template["metadata"]}, "spec": template["spec"]}))
PY
    "$kubectl" create --dry-run=server --validate=strict -f "$tmp/pod.json" > /dev/null || die "pods of $rendered"
    echo "$(basename "$rendered"): $(grep -c 'server dry run' "$tmp/applied") objects, and the pod"
  done
  "$kubectl" apply --validate=strict -f "$manifests/stepcast.yaml" -f "$manifests/monitoring.yaml" > "$tmp/applied" 2>&1 || { cat "$tmp/applied"; die 'deploy/manifests'; }
  if grep -i warning "$tmp/applied"; then die 'warnings about deploy/manifests'; fi
  echo "deploy/manifests: $(grep -c created "$tmp/applied") objects"
  "$kubectl" delete -f "$manifests/stepcast.yaml" --wait=false > /dev/null

  step 'install, upgrade, uninstall'
  release() { "$helm" "$@" --namespace chart > "$tmp/helm.out" 2>&1 || { cat "$tmp/helm.out"; die "helm $*"; }; }
  # is EXPECTED KIND JSONPATH
  is() { local found; found=$("$kubectl" -n chart get "$2" -o "jsonpath=$3"); [ "$found" = "$1" ] || die "$2 $3: found '$found', expected '$1'"; }
  release install stepcast "$chart"
  grep -q 'Nobody may report steps yet' "$tmp/helm.out" || die 'the notes do not say that nobody may report'
  is Recreate deployment/stepcast '{.spec.strategy.type}'
  claim=$("$kubectl" -n chart get pvc stepcast -o 'jsonpath={.metadata.uid}')
  release upgrade stepcast "$chart" -f "$here/values/replicas.yaml" --set service.clusterIP=
  is RollingUpdate deployment/stepcast '{.spec.strategy.type}'
  is 3 deployment/stepcast '{.spec.replicas}'
  is '' deployment/stepcast '{.spec.template.spec.volumes[?(@.name=="data")].name}'
  is "$claim" pvc/stepcast '{.metadata.uid}{.metadata.deletionTimestamp}' # what was observed stays
  release upgrade stepcast "$chart" -f "$here/values/everything.yaml" --set service.clusterIP=,persistence.size=1Gi,persistence.storageClass=
  is Recreate deployment/stepcast '{.spec.strategy.type}'
  is '' deployment/stepcast '{.spec.strategy.rollingUpdate}'
  is true servicemonitor/stepcast '{.spec.endpoints[0].honorLabels}'
  release rollback stepcast 1
  is 1 deployment/stepcast '{.spec.replicas}'
  release uninstall stepcast
  is "$claim" pvc/stepcast '{.metadata.uid}{.metadata.deletionTimestamp}'
  [ -z "$("$kubectl" -n chart get deployment,service,networkpolicy,servicemonitor,prometheusrule,serviceaccount -l app.kubernetes.io/instance=stepcast -o name)" ] \
    || die 'something is left behind'
  release install stepcast "$chart" # takes the claim up again
  is "$claim" pvc/stepcast '{.metadata.uid}'

  step 'rights'
  account=system:serviceaccount:chart:stepcast
  for right in 'list nodes' 'watch nodes' 'list pods -A' 'watch pods -A'; do
    # shellcheck disable=SC2086 # words
    "$kubectl" auth can-i $right --as "$account" -q 2> /dev/null || die "the chart's role lacks: $right"
  done
  for right in 'get secrets -A' 'list configmaps -A' 'update nodes' 'patch pods -A' 'create pods -A' 'list services -A' 'delete nodes' 'create pods/binding -A'; do
    # shellcheck disable=SC2086 # words
    if "$kubectl" auth can-i $right --as "$account" -q 2> /dev/null; then die "the chart's role has more than it needs: $right"; fi
  done

  step 'kube-scheduler with deploy/kube-scheduler/config.yaml'
  for name in node-a node-b; do
    "$kubectl" create -f - > /dev/null <<YAML
apiVersion: v1
kind: Node
metadata: {name: $name, labels: {kubernetes.io/hostname: $name, stepcast.dev/accelerator: NVIDIA-A100-SXM4-80GB, stepcast.dev/accelerator-count: "8", stepcast.dev/nic-gbps: "100"}}
status:
  capacity: &c {cpu: "8", memory: 16Gi, pods: "10"}
  allocatable: *c
  conditions: [{type: Ready, status: "True"}]
YAML
  done
  "$python" "$here/extender_stub.py" "$extender" node-b "$tmp/extender.log" & stub=$!
  pids+=" $stub"
  until_true 10 'the stub' curl -s -o /dev/null "http://127.0.0.1:$extender/"
  schedule() { "$kubectl" -n default run "$1" --image=none --restart=Never > /dev/null; }
  placed() { "$kubectl" -n default get pod "$1" -o 'jsonpath={.spec.nodeName}' | grep .; }
  for name in one two three; do
    schedule "$name"
    until_true 30 "pod $name to be placed" placed "$name"
    [ "$(placed "$name")" = node-b ] || die "pod $name went to $(placed "$name"): the extender's scores do not decide"
  done
  for path in /filter /prioritize; do
    grep "\"path\": \"$path\"" "$tmp/extender.log" | grep -q '"nodes": null, "names": \["node-' || die "no request of $path by names of nodes"
  done
  kill "$stub"; wait "$stub" 2> /dev/null || true
  schedule four
  until_true 30 'a pod to be placed without the extender' placed four
  echo 'asked by names, decides by its scores, and may be away'
  # The patch for static pods, on a manifest as kubeadm writes it.
  "$kubectl" patch --local --type=json --patch-file "$root/deploy/kube-scheduler/patches/kube-scheduler+json.yaml" -o json -f - > "$tmp/patched.json" <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: kube-scheduler, namespace: kube-system}
spec:
  hostNetwork: true
  containers:
    - name: kube-scheduler
      image: registry.k8s.io/kube-scheduler:v1.36.4
      command: [kube-scheduler, --kubeconfig=/etc/kubernetes/scheduler.conf, --leader-elect=true]
      volumeMounts: [{name: kubeconfig, mountPath: /etc/kubernetes/scheduler.conf, readOnly: true}]
  volumes: [{name: kubeconfig, hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}}]
YAML
  grep -q -- '--config=/etc/kubernetes/stepcast-scheduler.yaml' "$tmp/patched.json" || die 'the patch does not reach the command'
  "$kubectl" create --dry-run=server --validate=strict -f "$tmp/patched.json" > /dev/null

  if [ -n "$program" ]; then
    step "the sidecar with the chart's rights and no others"
    token=$("$kubectl" -n chart create token stepcast)
    sed "s/admin-token/$token/" "$KUBECONFIG" > "$tmp/sidecar.kubeconfig"
    metrics=$(free_port)
    KUBECONFIG=$tmp/sidecar.kubeconfig "$program" serve --kube --listen "127.0.0.1:$(free_port)" --metrics "127.0.0.1:$metrics" --log-level=info 2> "$tmp/sidecar.log" & pids+=" $!"
    (until_true 20 'the sidecar to be ready' curl -fs "http://127.0.0.1:$metrics/readyz") || { cat "$tmp/sidecar.log" >&2; exit 1; }
    curl -fs "http://127.0.0.1:$metrics/metrics" > "$tmp/metrics"
    grep -q '^stepcast_inventory_synced 1' "$tmp/metrics" || die 'not in touch'
    grep '^stepcast_inventory_nodes' "$tmp/metrics" || die 'no nodes'
    if grep -iE 'forbidden|refus|not allowed' "$tmp/sidecar.log"; then die "the chart's rights are not enough"; fi
  fi
fi

if [ -n "$program" ]; then
  if have python 'the panels' && have prometheus 'the panels'; then
    step 'every panel shows something'
    live=("$assets/python/bin/python" "$here/live.py" "$program" "$assets/prometheus")
    if [ -n "${PNG:-}" ]; then
      drawer=$assets/chart-matplotlib
      "$drawer/bin/python" -c 'import matplotlib' 2> /dev/null || { python3 -m venv "$drawer" && "$drawer/bin/pip" install -q --disable-pip-version-check matplotlib; }
      live+=(--png "$PNG" --draw-with "$drawer/bin/python")
    fi
    "${live[@]}"
  fi
fi

step "done${skipped:+; NOT RUN, for want of:$skipped}"
