"""What an operator asks of the API server: a proxy between the two that writes down each write and can end the operator after any of them."""

import base64
import http.client
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from harness.cluster import Operator, kubectl

WRITES = {"POST", "PUT", "PATCH", "DELETE"}


class ApiServer:
    """Passes on what `operator` asks, watches included; `writes` holds (method, path) in the order in which they were answered.

    The API server refuses fields that it does not know, which it otherwise drops without a word that the operator heeds.

    `after_write(path)` is called when the API server has answered a write, before the operator hears of it; when it
    returns true the answer is lost, as it is for a process that dies at this moment.
    """

    def __init__(self, operator: Operator, after_write=lambda path: False):
        cluster = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self.writes: list[tuple[str, str]] = []
        self.after_write = after_write
        lock, proxy = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                upstream = http.client.HTTPSConnection(url.hostname, url.port or 443, context=trust)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
                    strict = f"{'&' if '?' in self.path else '?'}fieldValidation=Strict" if self.command in ("POST", "PUT", "PATCH") else ""
                    upstream.request(self.command, self.path + strict, body or None, headers)
                    answer = upstream.getresponse()
                    if self.command in WRITES:
                        # Read to the end: only then the write is done.
                        data = answer.read()
                        with lock:
                            proxy.writes.append((self.command, urlsplit(self.path).path))
                            if proxy.after_write(urlsplit(self.path).path):
                                self.close_connection = True
                                return
                    else:
                        data = None
                    self.send_response_only(answer.status)
                    for name, value in answer.getheaders():
                        if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                            self.send_header(name, value)
                    if data is not None:
                        self.send_header("Content-Length", str(len(data)))
                        self.end_headers()
                        self.wfile.write(data)
                        return
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    while data := answer.read1(1 << 16):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    # Either side went away.
                    self.close_connection = True
                finally:
                    upstream.close()

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = forward

            def log_message(self, *_):
                pass

        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listener.daemon_threads = True
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        config = json.loads(operator.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.listener.server_port}"}
        operator.kubeconfig.write_text(json.dumps(config))

    def changes(self) -> list[tuple[str, str]]:
        """The writes so far, but for the renewal of the lease."""
        return [(method, path) for method, path in self.writes if "/leases" not in path]

    def stop(self):
        self.listener.shutdown()
        self.listener.server_close()
