"""Asks pip-audit for known vulnerabilities of what requirements.lock holds: `python -m tests.audit`, a part of `make lint`.

Without a network, or where no service of advisories answers, it says so in one line and ends well.
"""

import json
import pathlib
import subprocess
import sys

LOCK = pathlib.Path(__file__).parent.parent / "requirements.lock"


def main(command: tuple[str, ...] = (sys.executable, "-m", "pip_audit")) -> int:
    """Prints what was found; returns 1 for vulnerabilities."""
    arguments = "--progress-spinner=off --format=json --disable-pip --require-hashes --timeout=10 -r".split()
    done = subprocess.run([*command, *arguments, LOCK], capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"pip-audit: skipped, since it gave no answer ({reason:.120}).")
        return 0
    asked = [package for package in packages if "vulns" in package]
    if not asked:
        print(
            "pip-audit: skipped, since the service of advisories knows none of the packages; mostly it cannot be reached."
        )
        return 0
    found = [(package, vulnerability) for package in asked for vulnerability in package["vulns"]]
    for package, vulnerability in found:
        fixed = ", ".join(vulnerability.get("fix_versions", [])) or "no version"
        print(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
    print(f"pip-audit: {len(found)} known vulnerabilities in {len(asked)} of {len(packages)} packages.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
