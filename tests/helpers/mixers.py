"""Numbers of mixers for tests of short texts."""

import dataclasses

from xmodels.layers import mixers

SMALL = {
    "window": 5,
    "rank": 4,
    "chunk_size": 5,
    "num_buckets": 4,
    "stride": 5,
    "summary": 2,
    "num_global": 3,
    "block_size": 2,
    "num_random_blocks": 1,
    "columns": 4,
    "position_buckets": 6,
    "num_clusters": 3,
}


def small_numbers(name: str, **own) -> dict:
    """The numbers of a mixer: `own`, else those of `SMALL`, as far as the mixer has them."""
    known = {field.name for field in dataclasses.fields(mixers.find(name).numbers)}
    return {key: value for key, value in {**SMALL, **own}.items() if key in known}
