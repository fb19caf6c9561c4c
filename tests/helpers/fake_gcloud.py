"""A stand-in for gcloud: checks words against the documented grammar, plays a cloud, and keeps a record.

Run as a program named `gcloud` on PATH, with the folder of its cloud in FAKE_CLOUD. There `states.json` lists what successive
looks at the request give (the last one stays), `calls.jsonl` collects all calls, and `host_N` is the home folder of a host, in
which commands that come over ssh are really run by bash; the installation makes an `xmodels` that sleeps. A state "EXIT 3"
is ACTIVE, with all hosts made to say that their script ended with 3.

The grammar is that of cloud.google.com/sdk/gcloud/reference/compute/tpus/queued-resources/{create,delete,describe} and
.../tpu-vm/{ssh,scp} (synopses as of 2025): verb -> positional arguments, required flags, optional flags with and without value.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

WIDE = {"--project": True, "--quiet": False, "--format": True}  # gcloud-wide flags used here; --quiet is one of them
QUEUED, VM = ("compute", "tpus", "queued-resources"), ("compute", "tpus", "tpu-vm")
GRAMMAR = {
    (*QUEUED, "create"): {
        "positional": (1, 1), "required": ["--runtime-version", "--accelerator-type", "--node-id"],
        "flags": {
            "--zone": True, "--runtime-version": True, "--accelerator-type": True, "--node-id": True, "--async": False,
            "--boot-disk": True, "--data-disk": True, "--description": True, "--guaranteed": False, "--internal-ips": False,
            "--labels": True, "--metadata": True, "--metadata-from-file": True, "--network": True, "--range": True,
            "--reserved": False, "--scopes": True, "--service-account": True, "--shielded-secure-boot": False,
            "--spot": False, "--subnetwork": True, "--tags": True, "--valid-after-duration": True,
            "--valid-after-time": True, "--valid-until-duration": True, "--valid-until-time": True,
        },
    },
    (*QUEUED, "describe"): {"positional": (1, 1), "required": [], "flags": {"--zone": True}},
    (*QUEUED, "delete"): {
        "positional": (1, 1), "required": [], "flags": {"--zone": True, "--async": False, "--force": False},
    },
    (*VM, "ssh"): {
        "positional": (1, 1), "required": [],
        "flags": {
            "--zone": True, "--worker": True, "--command": True, "--output-directory": True, "--dry-run": False,
            "--force-key-file-overwrite": False, "--internal-ip": False, "--plain": False, "--ssh-flag": True,
            "--ssh-key-file": True, "--strict-host-key-checking": True, "--ssh-key-expiration": True,
            "--ssh-key-expire-after": True,
        },
    },
    (*VM, "scp"): {
        "positional": (2, 99), "required": [],
        "flags": {
            "--zone": True, "--worker": True, "--compress": False, "--dry-run": False, "--recurse": False,
            "--force-key-file-overwrite": False, "--internal-ip": False, "--plain": False, "--scp-flag": True,
            "--ssh-key-file": True, "--strict-host-key-checking": True, "--ssh-key-expiration": True,
            "--ssh-key-expire-after": True,
        },
    },
}  # fmt: skip


def parse(words):
    """(verb, positional arguments, flags). Raises a ValueError in gcloud's manner."""
    verb = tuple(words[:4])
    if verb not in GRAMMAR:
        raise ValueError(f"(gcloud) Invalid choice: {' '.join(words[:4])!r}.")
    rules, positional, flags = GRAMMAR[verb], [], {}
    known = {**WIDE, **rules["flags"]}
    for word in words[4:]:
        name, given, value = word.partition("=")
        if not word.startswith("--"):
            positional.append(word)
        elif name not in known:
            raise ValueError(f"(gcloud.{'.'.join(verb)}) unrecognized arguments: {word}")
        elif known[name] != bool(given):
            raise ValueError(
                f"(gcloud.{'.'.join(verb)}) argument {name}: expected {'one' if known[name] else 'no'} value"
            )
        elif name in flags:
            raise ValueError(f"(gcloud.{'.'.join(verb)}) argument {name}: given twice")
        else:
            flags[name] = value
    low, high = rules["positional"]
    missing = [name for name in rules["required"] if name not in flags]
    if missing or not low <= len(positional) <= high:
        raise ValueError(f"(gcloud.{'.'.join(verb)}) arguments are missing or too many: {missing or positional}")
    return verb, positional, flags


def main(words):
    cloud = pathlib.Path(os.environ["FAKE_CLOUD"])
    with open(cloud / "calls.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(words) + "\n")
    try:
        verb, positional, flags = parse(words)
    except ValueError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 2
    if not flags.get("--project") or not flags.get("--zone"):
        print("ERROR: (gcloud) The required property [project] or [zone] is not currently set.", file=sys.stderr)
        return 1
    return {"create": create, "describe": describe, "delete": delete, "ssh": ssh, "scp": scp}[verb[-1]](
        cloud, positional, flags
    )


def there(cloud):
    return (cloud / "request").exists()


def create(cloud, positional, flags):
    if there(cloud):
        print("ERROR: (gcloud.compute.tpus.queued-resources.create) ALREADY_EXISTS", file=sys.stderr)
        return 1
    (cloud / "request").write_text(positional[0])
    return 0


def describe(cloud, positional, flags):
    if not there(cloud):
        print(
            "ERROR: (gcloud.compute.tpus.queued-resources.describe) NOT_FOUND: Resource was not found", file=sys.stderr
        )
        return 1
    states = json.loads((cloud / "states.json").read_text())
    state = states[0]
    if len(states) > 1:
        (cloud / "states.json").write_text(json.dumps(states[1:]))
    word, _, code = state.partition(" ")
    if word == "EXIT":
        for home in hosts(cloud):
            (home / "xmodels-job.exit").write_text(f"{code}\n")
    (cloud / "state").write_text("ACTIVE" if word == "EXIT" else word)
    print((cloud / "state").read_text())
    return 0


def delete(cloud, positional, flags):
    if not there(cloud) or "--force" not in flags or "--quiet" not in flags:
        print(
            "ERROR: (gcloud.compute.tpus.queued-resources.delete) NOT_FOUND, or a question nobody answers",
            file=sys.stderr,
        )
        return 1
    (cloud / "request").unlink()
    for home in hosts(cloud):  # the next TPU has new disks
        shutil.rmtree(home)
        home.mkdir()
    return 0


def hosts(cloud):
    return sorted(cloud.glob("host_*"))


def reachable(cloud):
    if there(cloud) and (cloud / "state").read_text() == "ACTIVE":
        return True
    print("ERROR: (gcloud.compute.tpus.tpu-vm.ssh) NOT_FOUND, or connection refused", file=sys.stderr)
    return False


def scp(cloud, positional, flags):
    if not reachable(cloud):
        return 1
    *sources, target = positional
    assert target.endswith(":") and flags["--worker"] == "all"
    for home in hosts(cloud):
        for source in sources:
            (home / os.path.basename(source)).write_bytes(pathlib.Path(source).read_bytes())
    return 0


def ssh(cloud, positional, flags):
    if not reachable(cloud):
        return 1
    command = flags["--command"]
    chosen = hosts(cloud) if flags["--worker"] == "all" else [hosts(cloud)[int(flags["--worker"])]]
    options = ["-n"] if "pip install" in command else []  # only checked for its grammar
    for home in chosen:
        if options:
            program = home / "xmodels-env/bin/xmodels"
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text("#!/bin/sh\nsleep 30\n")
            program.chmod(0o755)
        environment = {**os.environ, "HOME": str(home)}
        done = subprocess.run(["bash", *options, "-c", command], env=environment, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
