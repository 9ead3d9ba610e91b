# Settings and small helpers shared by the cluster scripts; sourced, never run.

CLUSTER_SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$CLUSTER_SRC/../../scripts/env.sh"

KUBE_VERSION=v1.37.2 # must be the k8s.io/kubernetes version in go.mod
NODE_NAME=e2e-node

# What is built once for each version and machine.
BUILT=$FILESTORE_CACHE/cluster/$(hash_of "$CLUSTER_SRC"/{go.mod,go.sum,build,image.py} "$CLUSTER_SRC"/cmd/*/*.go)
BIN=$BUILT/bin
IMAGES=$BUILT/images # archives loaded at every start

# Everything that a running cluster writes lies below this folder.
: "${CLUSTER_DIR:=$repo/target/cluster}"
STATE=$CLUSTER_DIR/state # `down` removes it
KUBECONFIG_FILE=$CLUSTER_DIR/kubeconfig

# Several clusters may run on a machine, each with a number of its own (0 to 9), which `up` chooses.
MACHINE=/run/filestore-e2e # NUMBER holds: folder of the cluster, process id of its holder

# use_number N: the addresses and names of the cluster with this number.
#
# The node has a network namespace of its own, joined to the host by one veth pair. The host reaches
# pods and ClusterIPs through it by two routes that vanish with the pair.
use_number() {
  CGROUP=e2e-cluster$1 # name of the cgroup that holds every pod
  HOST_LINK=e2e-cluster$1
  HOST_IP=10.123.$1.1
  NODE_IP=10.123.$1.2
  POD_CIDR=10.124.$1.0/24
  SERVICE_CIDR=10.125.$1.0/24
  API_SERVICE_IP=10.125.$1.1
  DNS_IP=10.125.$1.10
}
[ ! -e "$STATE/number" ] || use_number "$(cat "$STATE/number")"

say() { printf '%s cluster: %s\n' "$(date +%T)" "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# Process id, as the host sees it, of the node's process 1; empty when the node is not running.
node_pid() {
  local holder
  holder=$(cat "$STATE/holder.pid" 2>/dev/null) || return 0
  # The start time guards against a process id that was given to another program since.
  [ -n "$(process_start "$holder")" ] && [ "$(process_start "$holder")" = "$(cat "$STATE/holder.start" 2>/dev/null)" ] || return 0
  ps -o pid= --ppid "$holder" | tr -d ' '
}

process_start() { if [ -r "/proc/$1/stat" ]; then sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20; fi; }

# Run a command inside the node: its mounts, network, processes and host name.
in_node() {
  local pid
  pid=$(node_pid)
  [ -n "$pid" ] || die "the node is not running: e2e/cluster/up starts it"
  nsenter --target "$pid" --mount --net --pid --uts --ipc -- "$@"
}

kube() { "$BIN/kubectl" --kubeconfig "$KUBECONFIG_FILE" "$@"; }

# wait_for SECONDS WHAT COMMAND...: until the command, which must have a limit of its own, succeeds.
wait_for() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >"$STATE/logs/wait.log" 2>&1; do
    [ $SECONDS -lt $until ] || give_up "gave up waiting for $what"
    [ -n "$(node_pid)" ] || give_up "the node stopped while waiting for $what"
    sleep 0.3
  done
}

# give_up WHY: ends with the last lines of what may tell the cause.
give_up() {
  local log
  for log in "$STATE"/logs/{wait,node,containerd,etcd,kube-apiserver,kubelet}.log; do
    [ -s "$log" ] && printf -- '--- %s\n%s\n' "${log##*/}" "$(tail -n 15 "$log")" >&2
  done
  die "$1; all logs are in $STATE/logs"
}
