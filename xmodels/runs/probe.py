"""What a probe has found in the network of a run, as a chart of its report."""

import os

from data_pipelines import strict_json
from xmodels.runs.charts import COLOURS, Chart, Curve

FILE = "probe.json"  # as `xmodels evaluate --task=probe` leaves it in the folder of the run
LEVELS = {"majority": "most frequent label", "bag_of_words": "bag of words"}


def charts(folder: str) -> list[Chart]:
    """Returns accuracy by layer, a curve for each pooling; nothing where no probe was made, or its file is cut."""
    try:
        found = strict_json.read(os.path.join(folder, FILE))
        curves = _curves(found["readouts"])
        levels = {title: float(found[name]) for name, title in LEVELS.items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []
    title = f"accuracy of a linear probe by layer ({os.path.basename(str(found.get('test_file', '')))})"
    return [Chart(title, curves, levels)] if curves else []


def _curves(readouts: list[dict]) -> list[Curve]:
    layered = [each for each in readouts if each["layer"] is not None]
    curves = []
    for pooling, colour in zip(dict.fromkeys(each["pooling"] for each in layered), COLOURS, strict=False):
        points = sorted((int(each["layer"]), float(each["accuracy"])) for each in layered if each["pooling"] == pooling)
        curves.append(Curve(pooling, [p[0] for p in points], [p[1] for p in points], colour, dots=True))
    return curves
