#!/bin/sh
# Starts MinIO as Bitnami's image (bitnamilegacy/minio:2025.7.23) does: keys from files or variables, and both of them
# left in clear text on the drive.
set -eu
data=${MINIO_DATA_DIR:-/bitnami/minio/data}
[ -z "${MINIO_ROOT_USER_FILE:-}" ] || MINIO_ROOT_USER=$(cat "$MINIO_ROOT_USER_FILE")
[ -z "${MINIO_ROOT_PASSWORD_FILE:-}" ] || MINIO_ROOT_PASSWORD=$(cat "$MINIO_ROOT_PASSWORD_FILE")
unset MINIO_ROOT_USER_FILE MINIO_ROOT_PASSWORD_FILE
export MINIO_ROOT_USER MINIO_ROOT_PASSWORD
umask 077
printf %s "$MINIO_ROOT_USER" >"$data/.root_user"
printf %s "$MINIO_ROOT_PASSWORD" >"$data/.root_password"
umask 022
exec /opt/bitnami/minio/bin/minio server --address ":${MINIO_API_PORT_NUMBER:-9000}" --certs-dir /tmp/certs "$data"
