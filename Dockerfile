# The image: one static binary in an empty file system, for amd64 and arm64.
#
#   docker buildx build --platform linux/amd64,linux/arm64 -t filestore .
#
# No shell, no libc, no package: nothing in it needs an update but the binary. It runs as uid 1200, with a read-only
# root, and writes only to the volume that is mounted (see docs/development.md, "The image").

# Cross-compiles on the builder's own architecture, which is much faster than emulating the target's.
FROM --platform=$BUILDPLATFORM rust:1.95.0-slim-bookworm AS build
ARG TARGETARCH
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/zig \
 && /opt/zig/bin/pip install --no-cache-dir ziglang==0.17.1 cargo-zigbuild==0.24.1 \
 && rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl
ENV PATH=/opt/zig/bin:$PATH
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/target \
    case "$TARGETARCH" in \
      amd64) target=x86_64-unknown-linux-musl ;; \
      arm64) target=aarch64-unknown-linux-musl ;; \
      *) echo "no build for $TARGETARCH" >&2; exit 1 ;; \
    esac \
 && CARGO_TARGET_DIR=/target cargo zigbuild --locked --profile dist --package filestore --bin filestore --target "$target" \
 && mkdir -p /out/data \
 && cp "/target/$target/dist/filestore" /out/filestore

FROM scratch
LABEL org.opencontainers.image.title="filestore" \
      org.opencontainers.image.description="S3 file store on a POSIX volume that takes over from MinIO" \
      org.opencontainers.image.source="https://github.com/RyaxTech/filestore" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/filestore /filestore
# A mount point that uid 1200 may write to also without a volume.
COPY --from=build --chown=1200:1200 /out/data /data
USER 1200:1200
EXPOSE 9000 9090
ENTRYPOINT ["/filestore"]
CMD ["gateway", "/data"]
