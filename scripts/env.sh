# Sourced by the other scripts: where things are. Nothing here is slow or writes anything.
#
# Everything that is worth keeping between clones lives outside of the clone, under FILESTORE_CACHE:
#   target/                   cargo's build directory
#   tools/<tool>/<hash>/      peers built from Go modules (MinIO, versitygw; mc for the benchmark)
#   venv/<hash>/              Python environment of the end-to-end tests
#   cluster/<hash>/           programs and images of the one-node Kubernetes of the operator's tests (e2e/cluster)
# The cache may be deleted at any time; it is never required.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export FILESTORE_CACHE=${FILESTORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/filestore}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$FILESTORE_CACHE/target}

# Where rustup, a Go that was unpacked by hand and what only root runs (iptables) usually are, for shells that do not
# have them on PATH yet.
for dir in "$HOME/.cargo/bin" /usr/local/go/bin /usr/sbin /sbin; do
  case ":$PATH:" in
    *":$dir:"*) ;;
    *) [ -d "$dir" ] && PATH=$PATH:$dir ;;
  esac
done
export PATH

# The pinned toolchain, whatever the caller's shell overrides.
rust_version=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' "$repo/rust-toolchain.toml")
unset RUSTUP_TOOLCHAIN

rust_targets="x86_64-unknown-linux-musl aarch64-unknown-linux-musl"

# hash_of FILE... TEXT: a short name for "built from exactly this".
hash_of() {
  local item
  for item in "$@"; do
    if [ -f "$item" ]; then cat "$item"; else printf '%s\n' "$item"; fi
  done | sha256sum | cut -c1-16
}

venv_dir=$FILESTORE_CACHE/venv/$(hash_of "$repo/e2e/requirements.txt")

# tool_dir NAME: where that Go tool is or will be. MinIO does not build with older Go releases.
tool_toolchain() {
  case $1 in
    minio) echo go1.27.3 ;;
    *) echo local ;;
  esac
}
tool_dir() {
  local module=$repo/e2e/tools/$1
  echo "$FILESTORE_CACHE/tools/$1/$(hash_of "$module/go.mod" "$module/go.sum" "$(tool_toolchain "$1")")"
}

# say TEXT: what a script is doing, on stderr.
say() { printf '%s\n' "$*" >&2; }
