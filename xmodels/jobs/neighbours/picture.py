"""A map on which words with alike vectors stand near each other (t-SNE, van der Maaten and Hinton, 2008)."""

from collections.abc import Mapping, Sequence

import numpy as np

from xmodels.retrieval.words import Words

SIZE = 7.0  # inches
PERPLEXITY = 30.0  # of t-SNE: about how many others each word is to keep near itself; fewer where there are fewer words


def places(vectors: np.ndarray) -> np.ndarray:
    """Returns a place on the map for each of N >= 2 vectors (N, D): float32 (N, 2). The same vectors give the same map."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    if min(vectors.shape) < 2:  # a line
        vectors = np.pad(vectors, ((0, 0), (0, 1)))
    return TSNE(perplexity=perplexity, metric="cosine", init="pca", random_state=0).fit_transform(vectors)


def draw(known: Words, found: Mapping[str, Sequence[tuple[str, float]]]):
    """Returns a figure of words (large) and their nearest ones (small), each in the colour of the word that it is nearest to.

    Args:
        found: {word: its neighbours with their cosines}, as `neighbours` returns them.
    """
    import matplotlib
    from matplotlib.figure import Figure

    colour_of: dict[str, int] = {}
    for number, (word, nearest) in enumerate(found.items()):
        colour_of.setdefault(word, number)
        for other, _ in nearest:
            colour_of.setdefault(other, number)
    colour_of |= {word: number for number, word in enumerate(found)}
    words = list(colour_of)
    map_ = places(known.unit[[known.place(word) for word in words]])
    colours = matplotlib.colormaps["tab10"]([number % 10 for number in colour_of.values()])
    figure = Figure(figsize=(SIZE, SIZE), layout="constrained")
    axis = figure.subplots()
    axis.set_axis_off()
    axis.margins(x=0.15, y=0.05)  # words stand to the right of their places
    axis.scatter(*map_.T, s=[36 if word in found else 10 for word in words], c=colours)
    for word, place, colour in zip(words, map_, colours, strict=True):
        strong = {"fontsize": 11, "fontweight": "bold"} if word in found else {"fontsize": 8}
        axis.annotate(word, place, (3, 3), textcoords="offset points", color=colour, parse_math=False, **strong)
    return figure
