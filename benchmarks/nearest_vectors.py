"""Libraries that find near vectors: what they cost to import, build and ask, and what share of the nearest they find.

    python -m benchmarks.nearest_vectors --counts=10000,100000 --widths=128,768

Needs numpy, and measures what is installed of faiss-cpu and hnswlib. Vectors are like those of texts: they lie near a space of few
dimensions. Each case runs in a process of its own. Prints a table in Markdown.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

DIMENSIONS = 32  # of the space near which vectors lie
QUERIES, TOP = 200, 10
NEIGHBOURS, BUILD_DEPTH, SEARCH_DEPTH = 32, 100, 64  # of both graphs
KINDS = ("numpy", "faiss_flat", "faiss_hnsw", "hnswlib")


def vectors_like_texts(count: int, width: int, seed: int = 0) -> np.ndarray:
    """float32 (count, width) of length 1."""
    rng = np.random.default_rng(seed)
    turned = rng.normal(size=(DIMENSIONS, width)).astype("float32")
    made = rng.normal(size=(count, DIMENSIONS)).astype("float32") @ turned
    made += 0.5 * DIMENSIONS**0.5 * rng.normal(size=made.shape).astype("float32")
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def exact(vectors, queries):
    """The places of the nearest, (Q, TOP)."""
    scores = queries @ vectors.T
    places = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
    order = np.argsort(-np.take_along_axis(scores, places, axis=1), axis=1)
    return np.take_along_axis(places, order, axis=1)


def build(kind: str, vectors, path: str):
    """A function from queries to places, by an index that was written and read again; and the size of its file."""
    width = vectors.shape[1]
    if kind == "numpy":
        np.save(path, vectors)
        held = np.load(path, mmap_mode="r")
        return lambda queries: exact(held, queries)
    if kind == "hnswlib":
        import hnswlib

        index = hnswlib.Index(space="ip", dim=width)
        index.init_index(max_elements=len(vectors), M=NEIGHBOURS, ef_construction=BUILD_DEPTH, random_seed=0)
        index.add_items(vectors)
        index.save_index(path)
        index = hnswlib.Index(space="ip", dim=width)
        index.load_index(path)
        index.set_ef(SEARCH_DEPTH)
        return lambda queries: index.knn_query(queries, k=TOP)[0]
    import faiss

    if kind == "faiss_flat":
        index = faiss.IndexFlatIP(width)
    else:
        index = faiss.IndexHNSWFlat(width, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = BUILD_DEPTH, SEARCH_DEPTH
    index.add(vectors)
    faiss.write_index(index, path)
    index = faiss.read_index(path)
    return lambda queries: index.search(queries, TOP)[1]


def measure(kind: str, count: int, width: int) -> dict:
    """One case."""
    module = {"numpy": "numpy", "hnswlib": "hnswlib"}.get(kind, "faiss")
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    imported = time.perf_counter() - start
    vectors = vectors_like_texts(count + QUERIES, width)
    vectors, queries = vectors[:count], vectors[count:]
    wanted = exact(vectors, queries)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index.npy")
        start = time.perf_counter()
        ask = build(kind, vectors, path)
        built, size = time.perf_counter() - start, os.path.getsize(path)
        ask(queries[:1])
        start = time.perf_counter()
        found = [ask(query[None])[0] for query in queries]
        alone = (time.perf_counter() - start) / QUERIES
        start = time.perf_counter()
        ask(queries)
        together = (time.perf_counter() - start) / QUERIES
    recall = np.mean([len(set(map(int, a)) & set(map(int, b))) / TOP for a, b in zip(found, wanted, strict=True)])
    return {
        "kind": kind, "count": count, "width": width, "import": imported, "build": built, "megabytes": size / 1e6,
        "alone": 1000 * alone, "together": 1000 * together, "recall": float(recall),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="10000,100000")
    parser.add_argument("--widths", default="128,768")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case[0], *map(int, options.case[1:]))))
        return
    print(
        "| vectors | width | library | import s | build s | file MB | memory GB | ms a query | ms a query of 200 | recall@10 |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for count in options.counts.split(","):
        for width in options.widths.split(","):
            for kind in options.kinds.split(","):
                if importlib.util.find_spec({"numpy": "numpy", "hnswlib": "hnswlib"}.get(kind, "faiss")) is None:
                    continue
                command = [sys.executable, "-m", "benchmarks.nearest_vectors", "--case", kind, count, width]
                row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                head = f"{row['count']:,} | {row['width']} | {kind} | {row['import']:.2f} | {row['build']:.1f}"
                times = f"{row['alone']:.2f} | {row['together']:.2f}"
                print(
                    f"| {head} | {row['megabytes']:.0f} | {row['memory']:.2f} | {times} | {row['recall']:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
