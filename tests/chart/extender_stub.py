#!/usr/bin/env python3
"""Stands where stepcast's extender does, to try a scheduler's configuration.

    extender_stub.py PORT FAVOURITE LOG

Lets every node pass, gives FAVOURITE the highest score, and writes a line of
JSON for each request into LOG.
"""

import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # The scheduler's Go types carry no JSON tags, so case is not promised.
        names = {key.lower(): value for key, value in request.items()}
        with open(sys.argv[3], "a") as log:
            pod = names["pod"]["metadata"]["name"]
            log.write(json.dumps({"path": self.path, "pod": pod, "nodes": names.get("nodes"), "names": names.get("nodenames")}) + "\n")
        if self.path == "/filter":
            answer: object = {"NodeNames": names["nodenames"], "FailedNodes": {}, "Error": ""}
        elif self.path == "/prioritize":
            answer = [{"Host": name, "Score": 10 if name == sys.argv[2] else 0} for name in names["nodenames"]]
        else:
            self.send_error(404)
            return
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
