"""Requests built byte by byte, so that a connection can be ended at any of them."""

import hashlib
import hmac
import socket
import struct
from datetime import datetime, timezone

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ENDINGS = ("close", "half-close", "reset")


def _credentials(server) -> Credentials:
    return Credentials(server.access, server.secret)


def plain(server, path: str, body: bytes, method: str = "PUT", query: str = "", headers: dict | None = None) -> tuple[bytes, bytes]:
    """Head and body of a request signed in its header, the payload's hash included."""
    url = f"{server.endpoint}{path}{query}"
    request = AWSRequest(method=method, url=url, data=body, headers=headers or {})
    S3SigV4Auth(_credentials(server), "s3", server.region).add_auth(request)
    return _head(server, method, path + query, dict(request.headers), len(body)), body


def presigned(server, path: str, body: bytes) -> tuple[bytes, bytes]:
    """Signed in the URL: the body is not covered by any hash."""
    request = AWSRequest(method="PUT", url=f"{server.endpoint}{path}")
    S3SigV4QueryAuth(_credentials(server), "s3", server.region, expires=300).add_auth(request)
    return _head(server, "PUT", request.url[len(server.endpoint):], {}, len(body)), body


def chunk_signed(server, path: str, body: bytes, chunk: int = 64 << 10, trailer: bool = False) -> tuple[bytes, bytes]:
    """STREAMING-AWS4-HMAC-SHA256-PAYLOAD: each chunk carries its own signature."""
    now = datetime.now(timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    scope = f"{day}/{server.region}/s3/aws4_request"
    pieces = [body[i:i + chunk] for i in range(0, len(body), chunk)] + [b""]
    length = sum(len(f"{len(p):x};chunk-signature=") + 64 + 2 + len(p) + 2 for p in pieces)
    headers = {"content-encoding": "aws-chunked", "host": server.host, "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "x-amz-date": stamp,
               "x-amz-decoded-content-length": str(len(body))}
    signed = ";".join(sorted(headers))
    canonical = "\n".join(["PUT", path, "", *(f"{k}:{headers[k]}" for k in sorted(headers)), "", signed, headers["x-amz-content-sha256"]])
    key = f"AWS4{server.secret}".encode()
    for part in (day, server.region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    sign = lambda text: hmac.new(key, text.encode(), hashlib.sha256).hexdigest()  # noqa: E731
    signature = sign("\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()]))
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={server.access}/{scope}, SignedHeaders={signed}, Signature={signature}"
    del headers["host"]
    encoded, previous = b"", signature
    for piece in pieces:
        previous = sign("\n".join(["AWS4-HMAC-SHA256-PAYLOAD", stamp, scope, previous, hashlib.sha256(b"").hexdigest(), hashlib.sha256(piece).hexdigest()]))
        encoded += f"{len(piece):x};chunk-signature={previous}\r\n".encode() + piece + b"\r\n"
    assert len(encoded) == length
    return _head(server, "PUT", path, headers, length), encoded


def unsigned_trailer(server, path: str, body: bytes) -> tuple[bytes, bytes]:
    """STREAMING-UNSIGNED-PAYLOAD-TRAILER: what SDKs send over TLS; the checksum comes behind the body."""
    import base64
    import zlib
    checksum = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    encoded = b"".join(f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in (body[i:i + 50_000] for i in range(0, len(body), 50_000)))
    encoded += f"0\r\nx-amz-checksum-crc32:{checksum}\r\n\r\n".encode()
    request = AWSRequest(method="PUT", url=f"{server.endpoint}{path}", headers={
        "Content-Encoding": "aws-chunked", "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Decoded-Content-Length": str(len(body)), "X-Amz-Trailer": "x-amz-checksum-crc32"})
    auth = S3SigV4Auth(_credentials(server), "s3", server.region)
    auth.payload = lambda _request: "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    auth.add_auth(request)
    return _head(server, "PUT", path, dict(request.headers), len(encoded)), encoded


def _head(server, method: str, target: str, headers: dict, length: int) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {server.host}", *(f"{k}: {v}" for k, v in headers.items() if k.lower() not in ("host", "content-length")), f"Content-Length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def send(server, head: bytes, body: bytes, ending: str | None = None) -> bytes:
    """Sends what is given and ends the connection in the way asked for; returns what came back.

    Returns only when the server has ended its side too (or was reset), so that what it does about it has begun.
    """
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        answer = b""
        try:
            connection.sendall(head + body)
            if ending == "reset":
                # Linger of zero seconds: the kernel answers everything that follows with RST.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return b""
            if ending == "close":
                return b""
            if ending == "half-close":
                connection.shutdown(socket.SHUT_WR)
            while True:
                got = connection.recv(1 << 16)
                if not got:
                    return answer
                answer += got
                if ending is None and b"\r\n\r\n" in answer:
                    return answer
        except ConnectionError:
            return answer
