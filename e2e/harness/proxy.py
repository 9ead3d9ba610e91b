"""A proxy in front of a server, for what a real server does not do on request: a wrong clock, an answer held back, headers changed."""

import http.client
import http.server
import threading
from email.utils import formatdate, parsedate_to_datetime

from harness.servers import Server


class Proxy:
    """Passes requests on as they are, so that their signatures stay good.

    `skew` seconds are added to the date of every answer. Requests for which `hold(path)` is true wait until `release` is
    called; `held` is set once one waits. `rewrite` gives other headers to requests.
    """

    def __init__(self, server: Server, skew: int = 0, hold=lambda path: False, rewrite=lambda headers: headers):
        self.access, self.secret, self.region = server.access, server.secret, server.region
        self.held, self.released = threading.Event(), threading.Event()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if hold(self.path) and not proxy.released.is_set():
                    proxy.held.set()
                    proxy.released.wait()
                upstream = http.client.HTTPConnection(server.host)
                upstream.request(self.command, self.path, body, rewrite(dict(self.headers)))
                answer = upstream.getresponse()
                data = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() == "date":
                        value = formatdate(parsedate_to_datetime(value).timestamp() + skew, usegmt=True)
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value)
                self.send_header("content-length", answer.getheader("content-length") or str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def release(self) -> None:
        self.released.set()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_):
        self.release()
        self.http.shutdown()
        self.http.server_close()
