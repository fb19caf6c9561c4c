"""The same job for Google Kubernetes Engine, as a manifest.

After cloud.google.com/kubernetes-engine/docs/how-to/tpus (node selectors, `google.com/tpu`, a headless service for slices of
several hosts) and .../persistent-volumes/cloud-storage-fuse-csi-driver (the bucket as a folder).
"""

import json
import shlex

from data_pipelines.errors import UsageError
from xmodels.tpu.gcloud import Job


def manifest(job: Job, image: str, restarts: int) -> str:
    """YAML for `kubectl apply -f -`: a Job with one pod on each host of the slice.

    Args:
        image: a container image that holds the project and TensorFlow for TPUs.
        restarts: how often pods may be replaced, for instance when a spot node is taken back.
    """
    chip, rented = job.rented.topology.chip, job.rented
    if not chip.gke:
        raise UsageError(f"--gke: GKE has no nodes with {rented.accelerator_type}.")
    shape = rented.topology.name.partition(":")[2]
    selector = [
        f"cloud.google.com/gke-tpu-accelerator: {chip.gke}",
        f"cloud.google.com/gke-tpu-topology: {shape}",
        *(['cloud.google.com/gke-spot: "true"'] if job.spot else []),
    ]
    return f"""\
apiVersion: v1
kind: Service
metadata:
  name: {job.name}
spec:
  clusterIP: None
  selector:
    job-name: {job.name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {job.name}
spec:
  completionMode: Indexed
  completions: {rented.num_hosts}
  parallelism: {rented.num_hosts}
  backoffLimit: {restarts}
  template:{_annotations(job)}
    spec:
      subdomain: {job.name}
      restartPolicy: Never{_account(job)}
      nodeSelector:
{_lines(selector, 8)}
      containers:
        - name: xmodels
          image: {json.dumps(image)}
          command: {json.dumps(["bash", "-c", f"exec xmodels {shlex.join(job.arguments)}"])}
          resources:
            requests:
              google.com/tpu: {rented.chips_per_host}
            limits:
              google.com/tpu: {rented.chips_per_host}{_volume(job)}
"""


def _lines(lines: list[str], indent: int) -> str:
    return "\n".join(" " * indent + line for line in lines)


def _annotations(job: Job) -> str:
    return '\n    metadata:\n      annotations:\n        gke-gcsfuse/volumes: "true"' if job.bucket else ""


def _account(job: Job) -> str:
    return f"\n      serviceAccountName: {job.service_account}" if job.service_account else ""


def _volume(job: Job) -> str:
    if not job.bucket:
        return ""
    return f"""
          volumeMounts:
            - name: bucket
              mountPath: {job.mount}
      volumes:
        - name: bucket
          csi:
            driver: gcsfuse.csi.storage.gke.io
            volumeAttributes:
              bucketName: {job.bucket}
              mountOptions: implicit-dirs"""
