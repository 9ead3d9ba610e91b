"""A proxy that writes down what is asked of the server behind it."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class CountingProxy:
    """Stands for `server`, with its keys; `requests` holds (method, path, query) in order."""

    def __init__(self, server):
        self.access, self.secret, self.region = server.access, server.secret, server.region
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                url = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
                proxy.requests.append((self.command, url.path, query))
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                upstream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                # The signature covers the Host header as the client sent it.
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    upstream.putheader(name, value)
                upstream.endheaders(body)
                answer = upstream.getresponse()
                data = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value)
                length = answer.getheader("content-length") if self.command == "HEAD" else len(data)
                if answer.status != 204:
                    self.send_header("Content-Length", str(length or 0))
                self.end_headers()
                self.wfile.write(data)
                upstream.close()

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

            def log_message(self, *_):
                pass

        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listener.daemon_threads = True
        self.port = self.listener.server_port
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lists(self) -> list[dict[str, str]]:
        """Queries of the object listings so far."""
        return [query for method, _, query in self.requests if method == "GET" and query.get("list-type") == "2"]

    def bodies(self) -> list[str]:
        """Paths of the objects that were read so far."""
        # GetObject is what names a key and none of its subresources (?tagging, ?attributes, …).
        whole = {"x-id", "versionId", "partNumber"}
        return [path for method, path, query in self.requests if method == "GET" and "/" in path.strip("/") and whole.issuperset(query) and not path.startswith("/minio/")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()
