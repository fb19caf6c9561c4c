"""What in the counts of records says that the text was hardly read as meant; create_pretraining_data and the doctor ask."""

from data_pipelines.packings import PACKINGS
from data_pipelines.records.manifest import Manifest

_ENOUGH = 100  # examples; shares of fewer say little
_BALANCED = 0.25, 0.75  # share of a label of two that should be about even
_MUCH_PADDING = 0.3  # where examples are filled with as many sentences as they hold
_FILLED = ("segment_pair", "full_sentences")


def doubts(manifest: Manifest) -> list[str]:
    """Lines about labels that are far from even and about much padding, each with its likely cause and what to do."""
    counts, settings = manifest.statistics, manifest.settings
    packing, examples = PACKINGS.get(settings.packing), manifest.num_examples
    if packing is None or examples < _ENOUGH:
        return []
    documents, sentences = counts.get("documents", 0), counts.get("sentences", 0)
    each = sentences / max(1, documents)
    cause = f"a document has {each:.1f} sentences on the average (read as {settings.read_as})"
    cure = "If this is prose whose paragraphs blank lines part, add --input_format=text; join short documents otherwise"
    found = []
    for label in packing.labels:
        share = counts.get(f"{label}=1", 0) / examples
        if not _BALANCED[0] < share < _BALANCED[1]:
            found.append(
                f"{label}: {1 - share:.0%} are 0 and {share:.0%} are 1, where about half is meant: {cause}. {cure}."
            )
    length = settings.max_sequence_length or 0
    padding = 1 - counts.get("example_tokens", 0) / max(1, examples * length)
    if settings.packing in _FILLED and padding > _MUCH_PADDING:
        found.append(
            f"padding is {padding:.0%} of all positions, where a few are usual: {cause}. {cure}, or lower --max_seq_length."
        )
    return found
