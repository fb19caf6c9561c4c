"""Serves what export_model wrote, by the REST interface of TensorFlow Serving and with a page to try them.
Requests that arrive together are answered in one batch. A new version of a model that appears in its folder takes
over without a lost request. On SIGTERM it answers the requests it has received, and exits with 0. Needs pip install
'xmodels[serve]'; TensorFlow Serving's gRPC interface beside it, --grpc_port=8500, needs 'xmodels[serve,grpc]'.

    xmodels serve --export_dir=serving --port=8501
    # then open http://127.0.0.1:8501/, or
    curl http://127.0.0.1:8501/v1/models/classifier:predict -d '{"instances": ["It rained all week."]}'
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """SavedModels, an address, and what a request may ask for."""

    SECTION: ClassVar = "Checkpoints and serving"
    JOB: ClassVar = "xmodels.jobs.serve.run:serve"
    EARLY: ClassVar = "xmodels.jobs.early:check_serving"
    NEEDS_TENSORFLOW: ClassVar = True

    export_dir: str | None = option(None, "Folder that export_model wrote, with a folder for each version. Several flags serve several models.", section="Models", repeatable=True)  # fmt: skip
    name: str | None = option(None, "Model name in URLs, /v1/models/NAME, one for each --export_dir. Default: that of the curl lines in the folder's README.md, else the folder's name.", repeatable=True)  # fmt: skip
    version_policy: str = option(
        "latest", "Versions that are served: latest, latest:N for the N highest, all, or specific:3,5."
    )
    model_config_file: str | None = option(None, "TensorFlow Serving's file of models (model_config_list, as text), in place of the flags above.")  # fmt: skip
    poll_seconds: float = option(1.0, "Seconds between two looks at the folders for new versions and for versions that are gone; 0 never looks again.", maximum=86400.0)  # fmt: skip
    trust_graph: bool = option(False, "Run any op of the SavedModels. By default only ops that exports of ours hold are run, since others can read and write files.")  # fmt: skip
    host: str = option("127.0.0.1", "Address to listen on; 0.0.0.0 for all addresses of this machine. There is no authentication: whoever reaches the address can send requests.", section="Address")  # fmt: skip
    port: int = option(8501, "Port to listen on; 0 takes a free one and prints it.", minimum=0, maximum=65535)
    grpc_port: int | None = option(None, "Port for gRPC, 8500 with TensorFlow Serving; 0 takes a free one. Default: no gRPC.", minimum=0, maximum=65535)  # fmt: skip
    allowed_hosts: str = option("", "Comma-separated names by which clients may ask, besides localhost and --host; * allows all. A request with another Host, or sent by a page of another origin, gets 403.")  # fmt: skip
    allowed_origins: str = option("", "Comma-separated origins, such as https://app.example, whose pages may send requests and read the answers (CORS).")  # fmt: skip
    max_batch_size: int = option(64, "Maximum number of texts in a batch. Waiting requests are batched together.", section="Batches", minimum=1)  # fmt: skip
    batch_timeout_ms: float = option(2.0, "Maximum time, in milliseconds, that a batch waits for requests that are being received. A request that is alone never waits.", minimum=0, maximum=1000.0)  # fmt: skip
    max_waiting: int = option(4096, "Maximum number of waiting rows of a version of a model. Further requests get 503 and are asked to retry later.", minimum=1)  # fmt: skip
    max_body_bytes: int = option(1 << 20, "Maximum size in bytes of the body of a request, or of a message of gRPC. A larger one gets 413, or RESOURCE_EXHAUSTED, and is not kept in memory.", section="Limits", minimum=100)  # fmt: skip
    max_text_length: int = option(20_000, "Maximum number of characters in a text. A longer one gets 400.", minimum=1)
    client_timeout: float = option(20.0, "Seconds that a client has to send the headers, and again to send the body. Idle connections are closed after the same time.", minimum=0.1)  # fmt: skip
    drain_timeout: float = option(30.0, "Seconds that running requests have to finish after SIGTERM.", minimum=0)
    log_requests: bool = option(False, "Print a line for each request.", section="Output")
