"""Serves a SavedModel that export_model wrote: the REST interface of TensorFlow Serving, and a page to try it."""

import sys

from launch.command import Command
from xmodels.jobs.serve.options import Options

COMMAND = Command(
    Options,
    "Serves a SavedModel that export_model wrote, by the REST interface of TensorFlow Serving and with a page to try it. "
    "Requests that arrive together are answered in one batch. On SIGTERM it answers the requests it has received, and exits with 0. Needs pip install 'xmodels[serve]'.",
    "xmodels serve --export_dir=serving --port=8501\n"
    "# then open http://127.0.0.1:8501/, or\n"
    'curl http://127.0.0.1:8501/v1/models/classifier:predict -d \'{"instances": ["It rained all week."]}\'',
    "Checkpoints and serving",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
