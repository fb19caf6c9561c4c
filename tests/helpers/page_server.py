"""`xmodels serve` as a process of its own, which the `curl` lines of pages ask."""

import re
import shutil
import signal
import subprocess
import sys
import urllib.request

PORT = "8501"  # on pages; here every server takes a free one


class Servers:
    """The servers that run. As a context it ends them by SIGTERM, and asserts that they end with 0.

    Args:
        exports: part of a request -> the export that answers it, where that is not the one of the page.
    """

    def __init__(self, exports):
        self.exports, self.ports, self.processes = exports, {}, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        try:
            codes = [process.wait(60) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
                process.stdout.close()
        assert not any(codes), f"exit codes of servers: {codes}"

    def start(self, *flags):
        """Runs `xmodels serve FLAGS`; returns its first line, with the port of pages."""
        command = [sys.executable, "-m", "launch", "serve", *flags, "--port=0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        said = process.stdout.readline()
        found = re.search(r"at http://127.0.0.1:(\d+)/", said)
        assert found, f"no server: {flags}"
        self.ports[next(flag for flag in flags if flag.startswith("--export_dir="))] = found[1]
        return said.replace(found[1], PORT)

    def ask(self, address, flag, body):
        """Runs `curl ADDRESS -d BODY` against the server that answers it; returns the answer."""
        assert flag == "-d" and f"localhost:{PORT}/" in address
        other = next((folder for part, folder in self.exports.items() if part in body), None)
        export = f"--export_dir={other}" if other else next(iter(self.ports))
        if export not in self.ports:
            self.start(export)
        address = address.replace(f":{PORT}/", f":{self.ports[export]}/")
        if shutil.which("curl"):
            command = ["curl", "--fail-with-body", "--silent", "--show-error", address, flag, body]
            return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        with urllib.request.urlopen(address, body.encode()) as answer:
            return answer.read().decode()
