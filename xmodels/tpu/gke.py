"""The same job for Google Kubernetes Engine, as a manifest.

After cloud.google.com/kubernetes-engine/docs/how-to/tpus (node selectors, `google.com/tpu`, a headless service for slices of
several hosts) and .../persistent-volumes/cloud-storage-fuse-csi-driver (the bucket as a folder).
"""

import json
import re
import shlex

from data_pipelines.errors import UsageError
from xmodels.tpu.gcloud import Job


def manifest(job: Job, image: str, restarts: int) -> str:
    """Returns YAML for `kubectl apply -f -`: a Job with one pod on each host of the slice.

    Args:
        image: a container image that holds the project and TensorFlow for TPUs.
        restarts: how often pods may be replaced, for instance when a spot node is taken back.
    """
    chip, rented = job.rented.topology.chip, job.rented
    if not chip.gke:
        raise UsageError(f"--gke: GKE has no nodes with {rented.accelerator_type}.")
    shape = rented.topology.name.partition(":")[2]
    name, selector = quote(job.name), [f"cloud.google.com/gke-tpu-accelerator: {quote(chip.gke)}"]
    selector.append(f"cloud.google.com/gke-tpu-topology: {quote(shape)}")
    if job.spot:
        selector.append('cloud.google.com/gke-spot: "true"')
    return f"""\
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  clusterIP: None
  selector:
    job-name: {name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {rented.num_hosts}
  parallelism: {rented.num_hosts}
  backoffLimit: {restarts}
  template:{_annotations(job)}
    spec:
      subdomain: {name}
      restartPolicy: Never{_account(job)}
      nodeSelector:
{_lines(selector, 8)}
      containers:
        - name: xmodels
          image: {quote(image)}
          command: ["bash", "-c", {quote(f"exec xmodels {shlex.join(job.arguments)}")}]
          resources:
            requests:
              google.com/tpu: {rented.chips_per_host}
            limits:
              google.com/tpu: {rented.chips_per_host}{_volume(job)}
"""


def quote(text: str) -> str:
    """Returns a text as YAML of any version reads it: in double quotes, as JSON, with escapes for what YAML does not take as it
    is.

    Without quotes `yes`, `1e3` and `a: b` would be something else. (PyYAML's emitter leaves `1e3` bare, which kubectl takes
    for a number.)
    """
    bare = json.dumps(text, ensure_ascii=False)
    return re.sub("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", bare)


def _lines(lines: list[str], indent: int) -> str:
    return "\n".join(" " * indent + line for line in lines)


def _annotations(job: Job) -> str:
    return '\n    metadata:\n      annotations:\n        gke-gcsfuse/volumes: "true"' if job.bucket else ""


def _account(job: Job) -> str:
    return f"\n      serviceAccountName: {quote(job.service_account)}" if job.service_account else ""


def _volume(job: Job) -> str:
    if not job.bucket:
        return ""
    return f"""
          volumeMounts:
            - name: bucket
              mountPath: {quote(job.mount)}
      volumes:
        - name: bucket
          csi:
            driver: gcsfuse.csi.storage.gke.io
            volumeAttributes:
              bucketName: {quote(job.bucket)}
              mountOptions: implicit-dirs"""
