#!/usr/bin/env bash
# The node's process 1. `up` starts it in new mount, network, process, host name and IPC namespaces,
# so every mount, address, packet filter rule and process made here goes away with it.
#
# Every program is started again when it ends: `kill` is how a test restarts one of them.
set -u

. "$1/env.sh"

# One short path for everything: socket paths have a limit of 107 bytes, and a checkout may lie deep.
# The host's /run, /var/log and /var/lib are hidden, so that nothing is read from or written to them.
mkdir -p "$STATE/bin"
mount --bind "$BIN" "$STATE/bin"
mount --rbind "$CLUSTER_DIR" /mnt
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/node
mount --move /mnt /run/node
mount -t tmpfs -o mode=755 tmpfs /var/log
mount -t tmpfs -o mode=755 tmpfs /var/lib
STATE=/run/node/state BIN=/run/node/state/bin
for folder in cni containerd etcd kubelet volumes; do
  mkdir -p "/var/lib/$folder" "$STATE/$folder"
  mount --bind "$STATE/$folder" "/var/lib/$folder"
done
mount --make-rshared / # volumes with mount propagation need it
exec >>"$STATE/logs/node.log" 2>&1

hostname "$NODE_NAME"
ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done # `up` puts it here
ip address add "$NODE_IP/30" dev eth0
ip link set eth0 up
ip route add default via "$HOST_IP"
sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
# Refuse at once what kube-proxy has not translated. Otherwise a pod that comes up before kube-proxy after
# a restart hangs in a connection that the kernel has already recorded as going nowhere.
for chain in OUTPUT FORWARD; do
  iptables -A "$chain" -d "$SERVICE_CIDR" -j REJECT
done

# keep NAME COMMAND...: run a program for ever, in the background.
keep() {
  local name=$1
  shift
  while :; do
    "$@" >>"$STATE/logs/$name.log" 2>&1 &
    echo $! >"$STATE/pids/$name"
    wait $!
    echo "$(date +%T) $name ended with $?; starting it again"
    sleep 1
  done &
}

PKI=$STATE/pki
keep etcd "$BIN/etcd" --name "$NODE_NAME" --data-dir /var/lib/etcd --log-level warn --unsafe-no-fsync \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380

keep containerd containerd --config "$STATE/containerd.toml"

keep kube-apiserver "$BIN/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
  --advertise-address "$NODE_IP" --secure-port 6443 --service-cluster-ip-range "$SERVICE_CIDR" \
  --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" \
  --client-ca-file "$PKI/ca.crt" --authorization-mode Node,RBAC \
  --enable-admission-plugins NodeRestriction --allow-privileged \
  --service-account-issuer https://kubernetes.default.svc.cluster.local \
  --service-account-signing-key-file "$PKI/service-accounts.key" \
  --service-account-key-file "$PKI/service-accounts.pub" \
  --kubelet-client-certificate "$PKI/apiserver-to-kubelet.crt" \
  --kubelet-client-key "$PKI/apiserver-to-kubelet.key" \
  --kubelet-preferred-address-types InternalIP

keep kubelet "$BIN/kubelet" --config "$STATE/kubelet.yaml" --kubeconfig "$PKI/kubelet.kubeconfig" \
  --hostname-override "$NODE_NAME" --node-ip "$NODE_IP"

# The rest gives up when it starts before the API server has made its built-in roles.
until "$BIN/kubectl" --kubeconfig "$PKI/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done

# login NAME: sets `flags` to those with which a program reaches the API server and asks it about callers.
login() {
  local file=$PKI/$1.kubeconfig
  flags=(--kubeconfig "$file" --authentication-kubeconfig "$file" --authorization-kubeconfig "$file")
}

login kube-controller-manager
keep kube-controller-manager "$BIN/kube-controller-manager" "${flags[@]}" --leader-elect=false \
  --use-service-account-credentials --root-ca-file "$PKI/ca.crt" \
  --service-account-private-key-file "$PKI/service-accounts.key"

login kube-scheduler
keep kube-scheduler "$BIN/kube-scheduler" "${flags[@]}" --leader-elect=false

keep kube-proxy "$BIN/kube-proxy" --config "$STATE/kube-proxy.yaml" --hostname-override "$NODE_NAME"

# As process 1 bash reaps every orphan; it stays here until the holder is killed.
while :; do
  wait
  sleep 1
done
